#include "mpi/cluster/liveness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "mpi/cluster/rank_lost.hpp"

namespace yamata {
namespace {

double seconds(std::chrono::milliseconds t) { return static_cast<double>(t.count()) / 1000.0; }

}  // namespace

Liveness::Liveness(int ranks, std::chrono::milliseconds deadline, Clock::time_point now)
    : peers_(static_cast<std::size_t>(ranks)), deadline_(deadline), all_{0, now}, checked_(now) {}

void Liveness::watch(int rank, Clock::time_point now) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.watched = true;
  peer.left = false;
  peer.deadline = deadline_;
  peer.last = now;
}

void Liveness::shorten_deadlines(std::chrono::milliseconds deadline, Clock::time_point now) {
  if (deadline >= deadline_) return;
  deadline_ = deadline;
  timeout_ = "--serving-timeout";
  for (Peer& peer : peers_) {
    peer.deadline = std::min(peer.deadline, deadline);
    peer.last = std::max(peer.last, now);
  }
  all_.since = std::max(all_.since, now);
  for (auto& [rank, progress] : drafters_) progress.since = std::max(progress.since, now);
  next_send_ = now;
}

void Liveness::shorten_deadline(int rank, std::chrono::milliseconds deadline) {
  peers_[static_cast<std::size_t>(rank)].deadline = std::min(deadline, deadline_);
}

bool Liveness::due(Clock::time_point now, bool often) {
  if (now < next_send_) return false;
  next_send_ = now + std::clamp(deadline_ / 8, std::chrono::milliseconds(20), std::chrono::milliseconds(often ? 100 : 1000));
  return true;
}

std::optional<int> Liveness::silent(Clock::time_point now, std::chrono::milliseconds grace) {
  auto shortest = deadline_;
  for (const Peer& peer : peers_) {
    if (peer.watched) shortest = std::min(shortest, peer.deadline);
  }
  if (now - std::exchange(checked_, now) > shortest / 2) {
    for (Peer& peer : peers_) peer.last = now;
    all_.since = now;
    for (auto& [rank, progress] : drafters_) progress.since = now;
  }
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    if (sends_to_another(static_cast<int>(r))) peers_[r].busy = now;
  }
  for (std::size_t r = 0; now >= held_back_ && r < peers_.size(); ++r) {
    if (peers_[r].watched && silence(peers_[r], now) >= peers_[r].deadline + grace) return static_cast<int>(r);
  }
  return std::nullopt;
}

std::vector<std::int32_t> Liveness::hears() const {
  std::vector<std::int32_t> ranks;
  for (int rank = 0; rank < std::ssize(peers_); ++rank) {
    if (met(rank) && heard_lately(rank)) ranks.push_back(rank);
  }
  return ranks;
}

/// A part may take up to the deadline.
std::vector<std::int32_t> Liveness::receives() const {
  std::vector<std::int32_t> ranks;
  for (int rank = 0; rank < std::ssize(peers_); ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.sends && checked_ - peer.last < deadline_) ranks.push_back(rank);
  }
  return ranks;
}

/// Whether the last heartbeat of another rank that was heard lately names this rank.
bool Liveness::named_by_another(int rank, std::vector<std::int32_t> wire::Heartbeat::*named) const {
  for (int other = 0; other < std::ssize(peers_); ++other) {
    const std::vector<std::int32_t>& ranks = state(other).*named;
    if (other != rank && heard_lately(other) && std::ranges::find(ranks, rank) != ranks.end()) return true;
  }
  return false;
}

bool Liveness::misses_a_peer(Clock::time_point now) const {
  return std::ranges::any_of(peers_, [&](const Peer& peer) { return peer.watched && silence(peer, now) > peer.deadline / 2; });
}

/// Requires that the other ranks that are still in the job are on several other machines: with only one, it is unknown which of the two is
/// cut off, and a silent rank on this machine is not cut off, but stopped.
bool Liveness::is_isolated(int own) const {
  std::set<std::string> machines;
  for (int rank = 0; rank < std::ssize(peers_); ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (rank == own || peer.left) continue;
    if (heard_lately(rank)) return false;
    machines.insert(peer.host);
  }
  return machines.size() > 1 && !machines.contains(peers_[static_cast<std::size_t>(own)].host);
}

/// The watched peers that nobody has heard lately.
Liveness::SilentPeers Liveness::silent_peers() const {
  SilentPeers silent;
  std::set<std::string> machines;
  for (int rank = 0; rank < std::ssize(peers_); ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!peer.watched || heard_lately(rank) || is_heard_by_another(rank)) continue;
    silent.names += (silent.count++ > 0 ? " and " : "") + named(rank);
    machines.insert(peer.host);
  }
  silent.machines = machines.size() > 1 ? "those machines" : "that machine";
  return silent;
}

std::string Liveness::isolation_text(int own, std::chrono::milliseconds silence, std::optional<bool> reaches_launcher) const {
  if (reaches_launcher == false) {
    return fmt::format(
        "{} has heard no other rank for {:g} s: it is cut off; look at that machine's network (or, on a slow link, raise {})", named(own),
        seconds(silence), timeout_);
  }
  const SilentPeers others = silent_peers();
  const bool several = others.count > 1;
  if (reaches_launcher == true) {
    return fmt::format(
        "{} {} been silent for {:g} s: {} stopped, dead or cut off, or {} was cut off for a while; look at {} (or, on a slow "
        "link, raise {})",
        others.names, several ? "have" : "has", seconds(silence), several ? "they are" : "it is", named(own), others.machines, timeout_);
  }
  return fmt::format(
      "{} has heard no other rank for {:g} s: it is cut off, or {} {} stopped, dead or cut off; look at all these machines "
      "(or, on a slow link, raise {})",
      named(own), seconds(silence), others.names, several ? "are" : "is", timeout_);
}

std::string Liveness::silence_text(int rank, int own, const ReachesLauncher& reaches_launcher) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (is_isolated(own)) return isolation_text(own, peer.deadline, reaches_launcher ? reaches_launcher() : std::nullopt);
  const SilentPeers all = silent_peers();
  if (all.count < 2 || is_heard_by_another(rank)) return silence_text_of_one(rank, own);
  return fmt::format("{} have been silent for {:g} s: they are stopped, dead or cut off; look at {}{}", all.names, seconds(peer.deadline),
                     all.machines, or_raise_timeout(peer));
}

std::string Liveness::silence_text_of_one(int rank, int own) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (is_heard_by_another(rank)) return cut_text(own, rank, peer.deadline);
  return fmt::format("{} has been silent for {:g} s: it is stopped, dead or cut off; look at that machine{}", named(rank),
                     seconds(peer.deadline), or_raise_timeout(peer));
}

std::string Liveness::or_raise_timeout(const Peer& peer) const {
  return peer.deadline < deadline_ ? "" : fmt::format(" (or, on a slow link, raise {})", timeout_);
}

bool Liveness::Progress::stalled(Clock::time_point now, bool work_open, std::uint64_t steps_now, std::chrono::milliseconds deadline) {
  open = work_open;
  if (!open || steps != steps_now) {
    steps = steps_now;
    since = now;
  }
  return now - since >= deadline;
}

void Liveness::check_progress(Clock::time_point now, bool work_open, const wire::Heartbeat& own,
                              const std::vector<std::vector<int>>& stages) {
  std::uint64_t sum = own.progress;
  for (const Peer& peer : peers_) sum += peer.state.progress;
  if (all_.stalled(now, work_open, sum, deadline_) && !misses_a_peer(now)) throw_stalled(own, stages);
}

bool Liveness::drafter_stalled(Clock::time_point now, bool awaited, const std::vector<int>& ranks) {
  const int first = ranks.front();
  std::uint64_t sum = 0;
  for (const int rank : ranks) sum += peers_[static_cast<std::size_t>(rank)].state.progress;
  Progress& progress = drafters_.try_emplace(first, Progress{sum, now}).first->second;
  return progress.stalled(now, awaited, sum, peers_[static_cast<std::size_t>(first)].deadline) &&
         std::ranges::all_of(ranks, [&](int rank) { return heard_lately(rank); });
}

std::string Liveness::stall_text(int rank) const {
  return fmt::format("{} has made no progress for {:g} s", named(rank), seconds(peers_[static_cast<std::size_t>(rank)].deadline));
}

/// Two ranks that work together, of which one does not hear the other though the head hears both.
std::optional<std::pair<int, int>> Liveness::cut_link(const std::vector<std::vector<int>>& stages) const {
  const auto hears = [&](int rank, int other) {
    return rank == 0 || other == 0 || std::ranges::find(state(rank).hears, other) != state(rank).hears.end();  // the head is heard by all
  };
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::vector<int>& others : {stages[s], s > 0 ? stages[s - 1] : stages[s]}) {
      for (const int rank : stages[s]) {
        for (const int other : others) {
          if (other < rank && !(hears(rank, other) && hears(other, rank))) return std::pair(other, rank);
        }
      }
    }
  }
  return std::nullopt;
}

void Liveness::throw_stalled(const wire::Heartbeat& own, const std::vector<std::vector<int>>& stages) const {
  if (const auto link = cut_link(stages)) throw RankLost(link->second, cut_text(link->first, link->second, deadline_));
  const auto state = [&](int rank) -> const wire::Heartbeat& { return rank == 0 ? own : peers_[static_cast<std::size_t>(rank)].state; };
  const auto exists = [&](int rank) { return rank >= 0 && rank < std::ssize(peers_); };
  const auto cut = [&](int rank, const char* what, int other) {
    return RankLost(other, fmt::format("{} has waited {:g} s for {} of {}: the link between them is cut; look at the network (or, on slow "
                                       "links, raise {})",
                                       named(rank), seconds(deadline_), what, named(other), timeout_));
  };
  // In a group, a rank may wait for one that waits itself: the last of them, or the first two that wait for each other, know the reason.
  const auto last_that_waits = [&](int rank) {
    for (auto left = peers_.size(); left > 0 && exists(state(rank).awaits); --left) {
      const int next = state(rank).awaits;
      if (!exists(state(next).awaits) || state(next).awaits == rank) break;
      rank = next;
    }
    return rank;
  };
  // The first stage in pipeline order that is stuck: its ranks wait for each other or for the stage before, or compute without end.
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (int rank : stages[s]) {
      rank = last_that_waits(rank);
      if (exists(state(rank).awaits)) throw cut(rank, "the part", state(rank).awaits);
      if (state(rank).activity == wire::Activity::kAwaitingActivations && s > 0) throw cut(rank, "the results", stages[s - 1].front());
    }
    for (const int rank : stages[s]) {
      if (state(rank).activity != wire::Activity::kComputing) continue;
      throw RankLost(rank, fmt::format("{} has computed for {:g} s without an end; is its machine overloaded? (or raise {})", named(rank),
                                       seconds(deadline_), timeout_));
    }
  }
  throw ClusterError(
      fmt::format("no rank has made progress for {:g} s; look at the network (or, on slow links, raise {})", seconds(deadline_), timeout_));
}

std::string Liveness::cut_text(int rank, int other, std::chrono::milliseconds silence) const {
  return fmt::format(
      "{} and {} have not heard each other for {:g} s, but others hear both: the link between them is cut; look at the "
      "network (or, on slow links, raise {})",
      named(rank), named(other), seconds(silence), timeout_);
}

std::string Liveness::named(int rank) const { return fmt::format("rank {}{}", rank, host_suffix(rank)); }

std::string Liveness::host_suffix(int rank) const {
  const std::string& host = peers_[static_cast<std::size_t>(rank)].host;
  return host.empty() ? "" : fmt::format(" ({})", host);
}

}  // namespace yamata
