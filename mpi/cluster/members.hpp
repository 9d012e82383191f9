#pragma once
// The ranks of a job as its head knows them: who has come, who is alive, whom the job can do without.
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

/// Knows and judges, decides nothing: what a loss means for the job is the head's to say.
class Members {
 public:
  using Time = Clock::time_point;

  /// Watches all other ranks of the transport from now on.
  Members(Transport& transport, std::chrono::milliseconds timeout);

  // Gathering
  /// A rank has said what it is. Throws ClusterError the second time.
  void joined(int rank, wire::Hello hello);
  /// How fast a rank is that has joined.
  void measured(int rank, wire::Measured measured) { hellos_[static_cast<std::size_t>(rank)].measured = std::move(measured); }
  bool all_joined() const { return missing_ == 0; }
  /// One per rank, once all have joined.
  const std::vector<wire::Hello>& hellos() const { return hellos_; }
  /// Throws unless all run rank 0's version and read the same files, whose `fingerprints` these are, one per model.
  void check_agreement(std::span<const std::uint64_t> fingerprints) const;

  // Who is needed
  /// A rank without a part in this plan is idle: the job can do without it.
  void place(const wire::Start& plan);
  bool idle(int rank) const { return idle_[static_cast<std::size_t>(rank)]; }
  /// Nobody sends to this idle rank or waits for it any more. False: nobody did.
  bool remove_idle(int rank);
  /// All have their weights: from now on the job can do without the drafters of this plan, which are waited for no longer than is useful.
  void serve(const wire::Start& plan);
  /// The first rank of the drafter that this rank belongs to, once the job can do without that.
  std::optional<int> drafter_of(int rank) const;
  bool lost(int rank) const { return lost_[static_cast<std::size_t>(rank)]; }
  /// The job goes on without this drafter, all its ranks: nobody sends to them or waits for them any more. False: it already did.
  bool remove_drafter(int leader);

  // Liveness
  void heard(int rank) { liveness_.heard(rank, Clock::now()); }
  void told(int rank, const wire::Heartbeat& heartbeat) { liveness_.tell(rank, heartbeat); }
  /// What a rank has said of itself last.
  const wire::Heartbeat& state(int rank) const { return liveness_.state(rank); }
  /// Tells all that the head lives, where it is time to: several times per deadline. False: it is not.
  bool send_heartbeats(Time now, const wire::Heartbeat& own);
  /// The launcher may have begun to end the job: for a while nobody is found silent.
  void hold_back(Time now) { liveness_.hold_back(now); }
  /// A rank that has been silent for its whole deadline. To be asked often.
  std::optional<RankLost> find_silent(Time now);
  /// A drafter whose ranks are all heard, and which yet does not come on though it is `awaited`: they do not hear each other.
  std::optional<RankLost> find_stalled_drafter(Time now, const std::function<bool(int leader)>& awaited);
  /// Throws RankLost if `work_open` and none of `stages`, whose ranks are given in pipeline order, has come on for the whole deadline.
  void check_progress(Time now, bool work_open, const wire::Heartbeat& own, const std::vector<std::vector<int>>& stages) {
    liveness_.check_progress(now, work_open, own, stages);
  }
  /// Nobody waits for this rank any more.
  void unwatch(int rank) { liveness_.unwatch(rank); }
  /// " (host)" of a rank where it is known.
  std::string host_suffix(int rank) const { return liveness_.host_suffix(rank); }

 private:
  void remove(int rank);

  Transport& transport_;
  Liveness liveness_;
  std::vector<wire::Hello> hellos_;
  std::vector<bool> joined_;
  int missing_;
  std::vector<std::vector<int>> drafters_;  // the ranks of each, the first leads; none before the job can do without them
  std::vector<bool> lost_, idle_;
};

}  // namespace yamata
