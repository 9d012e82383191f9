#pragma once
// The head's view of the ranks of a job: which have joined, which are alive, which are needed.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/cluster/liveness.hpp"
#include "mpi/cluster/rank_lost.hpp"
#include "mpi/protocol/wire.hpp"
#include "mpi/transport/transport.hpp"
#include "node/clock.hpp"

namespace yamata {

/// Keeps the facts and evaluates them. The head decides what the loss of a rank means for the job.
class Members {
 public:
  using Time = Clock::time_point;

  /// Begins to watch all other ranks of the transport. `reaches_launcher` tells whether this rank is cut off, if it hears no other.
  Members(Transport& transport, std::chrono::milliseconds timeout, ReachesLauncher reaches_launcher = {});

  // Gathering
  /// Records a rank's hello. Throws ClusterError at a second one.
  void joined(int rank, wire::Hello hello);
  /// Records the speed of a rank that has joined.
  void measured(int rank, wire::Measured measured) { hellos_[static_cast<std::size_t>(rank)].measured = std::move(measured); }
  bool all_joined() const { return missing_ == 0; }
  /// One per rank, after all have joined.
  const std::vector<wire::Hello>& hellos() const { return hellos_; }
  /// Throws unless all ranks run rank 0's version and have read the same files. `fingerprints`: rank 0's, one per model.
  void check_agreement(std::span<const std::uint64_t> fingerprints) const;

  // Who is needed
  /// Records the plan. A rank without a part in it is idle: the job does not need it.
  void place(const wire::Start& plan);
  bool idle(int rank) const { return idle_[static_cast<std::size_t>(rank)]; }
  /// Removes an idle rank: after kLeftOut, nothing is sent to it and nothing waits for it any more. False: it was removed before.
  bool remove_idle(int rank);
  /// All ranks have loaded their weights. From now on the job can continue without the drafters of this plan, unless it `needs_drafters`,
  /// and the timeout of drafters is shorter. No rank may be silent for more than `timeout`, if that is shorter than before.
  void serve(const wire::Start& plan, bool needs_drafters = false, std::chrono::milliseconds timeout = std::chrono::milliseconds::max());
  /// The first rank of the drafter that this rank belongs to, from `serve` on.
  std::optional<int> drafter_of(int rank) const;
  bool lost(int rank) const { return lost_[static_cast<std::size_t>(rank)]; }
  /// Removes all ranks of this drafter in the same way, and returns them. None: they were removed before.
  std::vector<int> remove_drafter(int leader);

  // Liveness
  void heard(int rank) { liveness_.heard(rank, Clock::now()); }
  void heard_part(int rank) { liveness_.heard_part(rank, Clock::now()); }
  std::uint64_t parts() const { return liveness_.parts(); }
  void told(int rank, const wire::Heartbeat& heartbeat) { liveness_.tell(rank, heartbeat); }
  /// A rank's last heartbeat.
  const wire::Heartbeat& state(int rank) const { return liveness_.state(rank); }
  /// Sends the head's heartbeat to all ranks if one is due: several times per timeout. False: none was due.
  bool send_heartbeats(Time now, const wire::Heartbeat& own);
  /// The launcher may have begun to end the job: for a while no rank counts as silent.
  void hold_back(Time now) { liveness_.hold_back(now); }
  /// A rank that has been silent for its whole timeout. Call it often.
  std::optional<RankLost> find_silent(Time now);
  /// A drafter that makes no progress though it is `awaited` and all its ranks send heartbeats: they do not reach each other.
  std::optional<RankLost> find_stalled_drafter(Time now, const std::function<bool(int leader)>& awaited);
  /// Throws RankLost if `work_open` and none of `stages`, whose ranks are given in pipeline order, has made progress for the whole timeout.
  void check_progress(Time now, bool work_open, const wire::Heartbeat& own, const std::vector<std::vector<int>>& stages) {
    liveness_.check_progress(now, work_open, own, stages);
  }
  /// Stops watching this rank.
  void unwatch(int rank) { liveness_.unwatch(rank); }
  /// " (host)" of a rank if the host is known, else empty.
  std::string host_suffix(int rank) const { return liveness_.host_suffix(rank); }

 private:
  void remove(int rank);

  Transport& transport_;
  const ReachesLauncher reaches_launcher_;
  Liveness liveness_;
  std::vector<wire::Hello> hellos_;
  std::vector<bool> joined_;
  int missing_;
  std::vector<std::vector<int>> drafters_;  // the ranks of each drafter, its leader first; empty before `serve`
  std::vector<bool> lost_, idle_;
};

}  // namespace yamata
