#pragma once
// Who is alive, and who keeps the others waiting.
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "node/clock.hpp"

namespace yamata {

/// Keeps, for each peer, when it was last heard and how far it had come.
class Liveness {
 public:
  using Clock = yamata::Clock;
  Liveness(int ranks, std::chrono::milliseconds deadline, Clock::time_point now);

  void name(int rank, std::string host) { peers_[static_cast<std::size_t>(rank)].host = std::move(host); }
  void watch(int rank, Clock::time_point now);
  /// A peer that the others can do without need not be waited for that long.
  void hurry(int rank, std::chrono::milliseconds deadline);
  void unwatch(int rank) { peers_[static_cast<std::size_t>(rank)].watched = false; }
  /// From any rank, watched or not.
  void heard(int rank, Clock::time_point now) {
    peers_[static_cast<std::size_t>(rank)].last = now;
    peers_[static_cast<std::size_t>(rank)].met = true;
  }
  /// Whether a rank has ever been heard.
  bool met(int rank) const { return peers_[static_cast<std::size_t>(rank)].met; }
  void tell(int rank, const wire::Heartbeat& heartbeat) { peers_[static_cast<std::size_t>(rank)].state = heartbeat; }
  const wire::Heartbeat& state(int rank) const { return peers_[static_cast<std::size_t>(rank)].state; }
  /// True when it is time to send heartbeats again: several per deadline, ten per second while `often`.
  bool due(Clock::time_point now, bool often = false);
  /// For some seconds nobody is found silent: by then a launcher that is ending the job has ended this rank, too.
  void hold_back(Clock::time_point now) { held_back_ = now + std::chrono::seconds(3); }
  /// A watched peer that has been silent for the whole deadline, if any. `grace` is added to it. Where this rank itself slept
  /// for long (it was stopped and goes on), everybody's silence begins anew. To be asked often.
  std::optional<int> silent(Clock::time_point now, std::chrono::milliseconds grace = {});
  /// What to say of a rank just found silent, on rank `own`: that is itself the one cut off where it hears none of several others.
  std::string silence_text(int rank, int own) const;
  /// True while a watched peer has been silent for half its deadline and more: then all are to tell each other that they live.
  bool suspicious(Clock::time_point now) const;
  /// Throws RankLost if, `work_open`, no watched peer nor `own` has come on for the whole deadline, naming the one of the ranks of
  /// `stages`, given in pipeline order, that is waited for.
  void check_progress(Clock::time_point now, bool work_open, const wire::Heartbeat& own, const std::vector<std::vector<int>>& stages);
  /// True where a drafter on these ranks is `awaited` and none of them has come on for the whole deadline of the first.
  bool drafter_stalled(Clock::time_point now, bool awaited, const std::vector<int>& ranks);
  /// What to say of a drafter that begins on this rank.
  std::string stall_text(int rank) const;
  /// " (host)" of a rank where it is known.
  std::string host_suffix(int rank) const;

 private:
  struct Peer {
    bool watched = false, met = false;
    std::string host;
    Clock::time_point last{};
    std::chrono::milliseconds deadline{};
    wire::Heartbeat state;
  };
  /// How far some ranks had come, and when they came there.
  struct Progress {
    std::uint64_t steps = 0;
    Clock::time_point since;
    /// True where `open` work has not come on for the whole deadline.
    bool stalled(Clock::time_point now, bool open, std::uint64_t steps_now, std::chrono::milliseconds deadline);
  };
  bool hears_nobody() const;
  [[noreturn]] void blame_stalled(const wire::Heartbeat& own, const std::vector<std::vector<int>>& stages) const;
  std::vector<Peer> peers_;
  std::chrono::milliseconds deadline_;
  Clock::time_point next_send_{};
  Progress all_;
  std::map<int, Progress> drafters_;  // by their first rank
  Clock::time_point checked_, held_back_{};
};

}  // namespace yamata
