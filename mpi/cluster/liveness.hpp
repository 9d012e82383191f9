#pragma once
// Which ranks are alive, and which rank the others wait for.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "node/clock.hpp"

namespace yamata {

/// Whether a launcher on another machine can be reached; nothing if it runs on this machine, or cannot be asked. May take a second. If the
/// function is empty, nothing is known.
using ReachesLauncher = std::function<std::optional<bool>()>;

/// Records for each peer when it was last heard, and its progress.
class Liveness {
 public:
  using Clock = yamata::Clock;
  Liveness(int ranks, std::chrono::milliseconds deadline, Clock::time_point now);

  void name(int rank, std::string host) { peers_[static_cast<std::size_t>(rank)].host = std::move(host); }
  void watch(int rank, Clock::time_point now);
  /// Sets a shorter deadline for all peers, and for work that makes no progress. Both are counted from now.
  void shorten_deadlines(std::chrono::milliseconds deadline, Clock::time_point now);
  /// Sets a shorter deadline for a peer without which the others can continue.
  void shorten_deadline(int rank, std::chrono::milliseconds deadline);
  /// The rank has left the job, or is left out of it: nothing is expected from it any more.
  void unwatch(int rank) {
    peers_[static_cast<std::size_t>(rank)].watched = false;
    peers_[static_cast<std::size_t>(rank)].left = true;
  }
  /// From any rank, watched or not.
  void heard(int rank, Clock::time_point now) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.last = now;
    peer.met = true;
    peer.sends = false;
  }
  /// A part of a large message has arrived from this rank. Its heartbeats wait behind the rest of the message.
  void heard_part(int rank, Clock::time_point now) {
    heard(rank, now);
    peers_[static_cast<std::size_t>(rank)].sends = true;
    ++parts_;
  }
  /// How many parts of large messages have arrived: they count as progress.
  std::uint64_t parts() const { return parts_; }
  /// Whether a rank was heard within half the deadline before the last call of `silent`.
  bool heard_lately(int rank) const { return checked_ - peers_[static_cast<std::size_t>(rank)].last < deadline_ / 2; }
  /// The ranks that were heard lately, for this rank's heartbeats.
  std::vector<std::int32_t> hears() const;
  /// The ranks of which a large message is arriving here, likewise.
  std::vector<std::int32_t> receives() const;
  /// Whether another rank that was heard lately hears this rank: then it lives.
  bool is_heard_by_another(int rank) const { return named_by_another(rank, &wire::Heartbeat::hears); }
  /// Whether a rank has ever been heard.
  bool met(int rank) const { return peers_[static_cast<std::size_t>(rank)].met; }
  void tell(int rank, const wire::Heartbeat& heartbeat) { peers_[static_cast<std::size_t>(rank)].state = heartbeat; }
  const wire::Heartbeat& state(int rank) const { return peers_[static_cast<std::size_t>(rank)].state; }
  /// True when it is time to send heartbeats again: several per deadline, ten per second while `often`.
  bool due(Clock::time_point now, bool often = false);
  /// For some seconds no peer is reported silent. A launcher that is ending the job ends this rank within this time.
  void hold_back(Clock::time_point now) { held_back_ = now + std::chrono::seconds(3); }
  /// A watched peer that has been silent for the whole deadline plus `grace`, if any. A peer of which another rank is receiving a large
  /// message is not silent, because on a slow link its heartbeats wait behind that message. After this rank was stopped and continued, the
  /// silence of all peers is counted from now. Call this often.
  std::optional<int> silent(Clock::time_point now, std::chrono::milliseconds grace = {});
  /// The message about a silent rank, on rank `own`:
  /// - `own` hears no rank, and the others are on several machines: `reaches_launcher` tells whether `own` is cut off. If it is not, the
  ///   message names all silent peers.
  /// - Other ranks hear the silent rank: the link between it and `own` is cut.
  /// - Otherwise the message names all peers that no rank hears.
  std::string silence_text(int rank, int own, const ReachesLauncher& reaches_launcher = {}) const;
  /// The same about this rank only, for a rank that the job does not need.
  std::string silence_text_of_one(int rank, int own) const;
  /// Whether a watched peer has been silent, or open work has made no progress, for at least half the deadline. Then all ranks must send
  /// heartbeats to each other.
  bool suspicious(Clock::time_point now) const { return misses_a_peer(now) || all_.half_stalled(now, deadline_); }
  /// Throws RankLost if, with `work_open`, neither a watched peer nor `own` has made progress for the whole deadline, and no peer is about
  /// to be reported as silent. It names two ranks of `stages` (in pipeline order) that do not hear each other, or else the rank for which
  /// the others wait.
  void check_progress(Clock::time_point now, bool work_open, const wire::Heartbeat& own, const std::vector<std::vector<int>>& stages);
  /// True if a drafter on these ranks is `awaited`, and none of them has made progress for the whole deadline of the first, though all were
  /// heard lately.
  bool drafter_stalled(Clock::time_point now, bool awaited, const std::vector<int>& ranks);
  /// The message about a stalled drafter whose first rank is this one.
  std::string stall_text(int rank) const;
  /// " (host)" of a rank if the host is known, else empty.
  std::string host_suffix(int rank) const;

 private:
  struct Peer {
    bool watched = false, met = false, left = false;
    bool sends = false;  // a large message, of which some parts have arrived
    std::string host;
    Clock::time_point last{};  // when it was heard
    Clock::time_point busy{};  // when another rank was receiving a large message from it
    std::chrono::milliseconds deadline{};
    wire::Heartbeat state;
  };
  /// The progress of some ranks, and when they last made some.
  struct Progress {
    std::uint64_t steps = 0;
    Clock::time_point since;
    bool open = false;
    /// True if `open` work has made no progress for the whole deadline.
    bool stalled(Clock::time_point now, bool work_open, std::uint64_t steps_now, std::chrono::milliseconds deadline);
    bool half_stalled(Clock::time_point now, std::chrono::milliseconds deadline) const { return open && now - since > deadline / 2; }
  };
  bool is_isolated(int own) const;
  struct SilentPeers {
    std::string names;  // "rank 1 (b) and rank 2 (c)"
    int count = 0;
    const char* machines = "";  // "that machine" or "those machines"
  };
  SilentPeers silent_peers() const;
  std::string isolation_text(int own, std::chrono::milliseconds silence, std::optional<bool> reaches_launcher) const;
  bool named_by_another(int rank, std::vector<std::int32_t> wire::Heartbeat::*named) const;
  bool sends_to_another(int rank) const { return named_by_another(rank, &wire::Heartbeat::receives); }
  static Clock::duration silence(const Peer& peer, Clock::time_point now) { return now - std::max(peer.last, peer.busy); }
  bool misses_a_peer(Clock::time_point now) const;
  /// "rank R (host)".
  std::string named(int rank) const;
  std::string or_raise_timeout(const Peer& peer) const;
  std::string cut_text(int rank, int other, std::chrono::milliseconds silence) const;
  std::optional<std::pair<int, int>> cut_link(const std::vector<std::vector<int>>& stages) const;
  [[noreturn]] void throw_stalled(const wire::Heartbeat& own, const std::vector<std::vector<int>>& stages) const;
  std::vector<Peer> peers_;
  std::chrono::milliseconds deadline_;
  const char* timeout_ = "--timeout";  // the flag that sets the deadline
  Clock::time_point next_send_{};
  Progress all_;
  std::uint64_t parts_ = 0;
  std::map<int, Progress> drafters_;  // by their first rank
  Clock::time_point checked_, held_back_{};
};

}  // namespace yamata
