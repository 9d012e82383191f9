#include "mpi/cluster/members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace yamata {
namespace {

// while decoding waits for a whole draft, a lost drafter blocks it for this long
constexpr auto kDrafterTimeout = std::chrono::seconds(10);

}  // namespace

Members::Members(Transport& transport, std::chrono::milliseconds timeout, ReachesLauncher reaches_launcher)
    : transport_(transport),
      reaches_launcher_(std::move(reaches_launcher)),
      liveness_(transport.size(), timeout, Clock::now()),
      hellos_(static_cast<std::size_t>(transport.size())),
      joined_(static_cast<std::size_t>(transport.size()), false),
      missing_(transport.size()),
      lost_(static_cast<std::size_t>(transport.size()), false),
      idle_(static_cast<std::size_t>(transport.size()), false) {
  for (int r = 0; r < transport.size(); ++r) liveness_.name(r, transport.host(r));
  for (int r = 1; r < transport.size(); ++r) liveness_.watch(r, Clock::now());
}

void Members::joined(int rank, wire::Hello hello) {
  if (joined_[static_cast<std::size_t>(rank)]) throw ClusterError(fmt::format("rank {}{} has said hello twice", rank, host_suffix(rank)));
  joined_[static_cast<std::size_t>(rank)] = true;
  liveness_.name(rank, hello.host);
  liveness_.tell(rank, {});  // its old state belongs to another job
  hellos_[static_cast<std::size_t>(rank)] = std::move(hello);
  --missing_;
}

void Members::check_agreement(std::span<const std::uint64_t> fingerprints) const {
  for (std::size_t r = 1; r < hellos_.size(); ++r) {
    const wire::Hello& a = hellos_[0];
    const wire::Hello& b = hellos_[r];
    if (a.protocol != b.protocol || a.version != b.version) {
      throw ClusterError(fmt::format("rank {} ({}) runs another version of yamata ({}) than rank 0 ({}); install the same one everywhere",
                                     r, b.host, b.version.empty() ? "unknown" : b.version, a.version));
    }
    const auto model = static_cast<std::size_t>(b.model);
    if (model >= fingerprints.size() || b.fingerprints.size() != fingerprints.size())
      throw ClusterError(fmt::format("rank {} ({}) was started with other flags than rank 0; give all ranks the same ones", r, b.host));
    if (fingerprints[model] != b.fingerprints[model]) {
      throw ModelError(fmt::format("rank {} ({}) has another {} file at this path than rank 0 ({}); copy the same file to every machine", r,
                                   b.host, model == 0 ? "model" : "draft model", a.host));
    }
  }
}

void Members::place(const wire::Start& plan) {
  for (int rank = 1; rank < transport_.size(); ++rank) {
    idle_[static_cast<std::size_t>(rank)] =
        std::none_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const wire::PipelinePlan& part) { return part.place_of(rank); });
  }
}

void Members::serve(const wire::Start& plan, bool needs_drafters, std::chrono::milliseconds timeout) {
  liveness_.shorten_deadlines(timeout, Clock::now());
  for (const wire::PipelinePlan& pipeline : plan.pipelines) {
    if (pipeline.model == 0) continue;
    drafters_.push_back(pipeline.ranks);
    wire::Heartbeat serving;
    serving.can_lose_drafters = true;
    for (const int rank : pipeline.ranks) {
      liveness_.shorten_deadline(rank, kDrafterTimeout);
      if (rank != transport_.rank() && !needs_drafters) transport_.send(rank, Tag::kHeartbeat, wire::encode(serving));
    }
  }
}

std::optional<int> Members::drafter_of(int rank) const {
  for (const std::vector<int>& ranks : drafters_) {
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return ranks.front();
  }
  return std::nullopt;
}

std::vector<int> Members::remove_drafter(int leader) {
  if (lost(leader)) return {};
  const auto ranks = std::ranges::find(drafters_, leader, [](const std::vector<int>& drafter) { return drafter.front(); });
  if (ranks == drafters_.end()) return {};
  for (const int rank : *ranks) remove(rank);
  return *ranks;
}

bool Members::remove_idle(int rank) {
  if (lost(rank)) return false;
  remove(rank);
  return true;
}

void Members::remove(int rank) {
  lost_[static_cast<std::size_t>(rank)] = true;
  transport_.send(rank, Tag::kLeftOut, {});
  transport_.forget(rank);
  liveness_.unwatch(rank);
}

bool Members::send_heartbeats(Time now, const wire::Heartbeat& own) {
  if (!liveness_.due(now)) return false;
  wire::Heartbeat heartbeat = own;
  heartbeat.asks = liveness_.suspicious(now);
  for (int r = 1; r < transport_.size(); ++r) {
    if (!lost(r)) transport_.send(r, Tag::kHeartbeat, wire::encode(heartbeat));
  }
  return true;
}

std::optional<RankLost> Members::find_silent(Time now) {
  const auto rank = liveness_.silent(now);
  if (!rank) return std::nullopt;
  const bool dispensable = idle(*rank) || drafter_of(*rank);  // the others are heard, or will be reported next
  return RankLost(*rank, dispensable ? liveness_.silence_text_of_one(*rank, 0) : liveness_.silence_text(*rank, 0, reaches_launcher_));
}

std::optional<RankLost> Members::find_stalled_drafter(Time now, const std::function<bool(int leader)>& awaited) {
  std::optional<RankLost> stalled;
  for (const std::vector<int>& ranks : drafters_) {
    const int leader = ranks.front();
    if (leader == 0 || lost(leader)) continue;
    if (!liveness_.drafter_stalled(now, awaited(leader), ranks) || stalled) continue;
    const char* const cause = ranks.size() > 1 ? "is a link between its ranks cut?" : "is its machine overloaded?";
    stalled.emplace(leader, fmt::format("{}; {}", liveness_.stall_text(leader), cause));
  }
  return stalled;
}

}  // namespace yamata
