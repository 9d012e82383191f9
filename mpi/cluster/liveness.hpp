#pragma once
// Which ranks are alive, and which rank the others wait for.
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "node/clock.hpp"

namespace yamata {

/// Records for each peer when it was last heard, and its progress.
class Liveness {
 public:
  using Clock = yamata::Clock;
  Liveness(int ranks, std::chrono::milliseconds deadline, Clock::time_point now);

  void name(int rank, std::string host) { peers_[static_cast<std::size_t>(rank)].host = std::move(host); }
  void watch(int rank, Clock::time_point now);
  /// Sets a shorter deadline for a peer without which the others can continue.
  void shorten_deadline(int rank, std::chrono::milliseconds deadline);
  /// The rank has left the job, or is left out of it: nothing is expected from it any more.
  void unwatch(int rank) {
    peers_[static_cast<std::size_t>(rank)].watched = false;
    peers_[static_cast<std::size_t>(rank)].left = true;
  }
  /// From any rank, watched or not.
  void heard(int rank, Clock::time_point now) {
    peers_[static_cast<std::size_t>(rank)].last = now;
    peers_[static_cast<std::size_t>(rank)].met = true;
  }
  /// Whether a rank was heard within half the deadline before the last call of `silent`.
  bool heard_lately(int rank) const { return checked_ - peers_[static_cast<std::size_t>(rank)].last < deadline_ / 2; }
  /// Whether a rank has ever been heard.
  bool met(int rank) const { return peers_[static_cast<std::size_t>(rank)].met; }
  void tell(int rank, const wire::Heartbeat& heartbeat) { peers_[static_cast<std::size_t>(rank)].state = heartbeat; }
  const wire::Heartbeat& state(int rank) const { return peers_[static_cast<std::size_t>(rank)].state; }
  /// True when it is time to send heartbeats again: several per deadline, ten per second while `often`.
  bool due(Clock::time_point now, bool often = false);
  /// For some seconds no peer is reported silent: a launcher that is ending the job will have ended this rank by then, too.
  void hold_back(Clock::time_point now) { held_back_ = now + std::chrono::seconds(3); }
  /// A watched peer that has been silent for the whole deadline plus `grace`, if any. If this rank itself was stopped and continues, all
  /// peers' silence is counted from now. Call this often.
  std::optional<int> silent(Clock::time_point now, std::chrono::milliseconds grace = {});
  /// The message about a silent rank, on rank `own`. If `own` hears none of several others, it is itself the one that is cut off, unless
  /// `own_is_connected`.
  std::string silence_text(int rank, int own, bool own_is_connected = false) const;
  /// True while a watched peer has been silent for at least half its deadline: then all ranks must send heartbeats to each other.
  bool suspicious(Clock::time_point now) const;
  /// Throws RankLost if, with `work_open`, neither a watched peer nor `own` has made progress for the whole deadline. It names the rank of
  /// `stages` (in pipeline order) for which the others wait.
  void check_progress(Clock::time_point now, bool work_open, const wire::Heartbeat& own, const std::vector<std::vector<int>>& stages);
  /// True if a drafter on these ranks is `awaited`, and none of them has made progress for the whole deadline of the first.
  bool drafter_stalled(Clock::time_point now, bool awaited, const std::vector<int>& ranks);
  /// The message about a stalled drafter whose first rank is this one.
  std::string stall_text(int rank) const;
  /// " (host)" of a rank if the host is known, else empty.
  std::string host_suffix(int rank) const;

 private:
  struct Peer {
    bool watched = false, met = false, left = false;
    std::string host;
    Clock::time_point last{};
    std::chrono::milliseconds deadline{};
    wire::Heartbeat state;
  };
  /// The progress of some ranks, and when they last made some.
  struct Progress {
    std::uint64_t steps = 0;
    Clock::time_point since;
    /// True if `open` work has made no progress for the whole deadline.
    bool stalled(Clock::time_point now, bool open, std::uint64_t steps_now, std::chrono::milliseconds deadline);
  };
  bool is_isolated() const;
  [[noreturn]] void throw_stalled(const wire::Heartbeat& own, const std::vector<std::vector<int>>& stages) const;
  std::vector<Peer> peers_;
  std::chrono::milliseconds deadline_;
  Clock::time_point next_send_{};
  Progress all_;
  std::map<int, Progress> drafters_;  // by their first rank
  Clock::time_point checked_, held_back_{};
};

}  // namespace yamata
