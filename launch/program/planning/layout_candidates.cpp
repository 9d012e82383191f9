#include "launch/program/planning/layout_candidates.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "mpi/planning/layer_split.hpp"
#include "src/model/shard.hpp"
#include "src/model/weights.hpp"

namespace yamata {
namespace {

constexpr int kFew = 8;  // up to this number of hosts, every number is tried; beyond it, powers of two

/// 1, 2, ... up to `each_up_to`, then only powers of two, and `most` itself.
std::vector<int> counts_up_to(int most, int each_up_to) {
  std::vector<int> counts;
  for (int n = 1; n < most; ++n) {
    if (n <= each_up_to || std::has_single_bit(static_cast<unsigned>(n))) counts.push_back(n);
  }
  counts.push_back(most);
  return counts;
}

class Candidates {
 public:
  Candidates(const ModelFile& target, std::span<const PlannedHost> hosts, std::uint64_t layer_cache_bytes)
      : target_(target), hosts_(hosts), layer_cache_bytes_(layer_cache_bytes) {}

  /// Adds layouts of the first hosts in `order`; the first one leads. `drafter`: the draft's host, 0 for the first one.
  void add(const std::vector<int>& order, std::optional<int> drafter) {
    for (const int count : counts_up_to(static_cast<int>(order.size()), kFew)) {
      std::vector<int> ranks(order.begin(), order.begin() + count);
      std::ranges::sort(ranks);
      const int most = static_cast<int>(std::min<std::int64_t>(count, most_members(target_.h)));
      for (const int group : counts_up_to(most, kFew / 2)) add(ranks, group, drafter);
    }
    if (order.size() > 1 && host(order[1]).ns_per_byte < host(order[0]).ns_per_byte) add_on_faster_hosts(order, drafter);
  }
  std::vector<LayoutCandidate> take() { return std::move(found_); }

 private:
  const PlannedHost& host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }

  void add(const std::vector<int>& ranks, int group, std::optional<int> drafter) {
    ModelPlace place{.ranks = ranks};
    for (std::size_t at = 0; at < ranks.size(); at += static_cast<std::size_t>(group))
      place.groups.push_back(std::min(group, static_cast<int>(ranks.size() - at)));
    if (place.stages() > target_.h.layers) return;
    const auto stages = split_layers(target_.file, target_.h, strengths(place), layer_cache_bytes_);
    if (!stages.empty()) add(std::move(place), stages, drafter);
  }

  /// Adds layouts in which a slow first host has one layer, which it must have since it leads, and faster hosts have all others: since
  /// tokens pass the stages one after another, more layers on it would cost time. The others are the fastest host, or a group of all that
  /// are faster than the first.
  void add_on_faster_hosts(const std::vector<int>& order, std::optional<int> drafter) {
    if (target_.h.layers < 2) return;
    const auto faster = std::ranges::count_if(order, [&](int rank) { return host(rank).ns_per_byte < host(order[0]).ns_per_byte; });
    for (const std::int64_t count : std::set<std::int64_t>{1, std::min<std::int64_t>(faster, most_members(target_.h))}) {
      std::vector<int> others(order.begin() + 1, order.begin() + 1 + count);
      std::ranges::sort(others);
      ModelPlace place{.ranks = {order[0]}, .groups = {1, static_cast<int>(count)}};
      place.ranks.insert(place.ranks.end(), others.begin(), others.end());
      const std::vector<LayerRange> stages{{0, 1}, {1, target_.h.layers}};
      const std::vector<RankStrength> needs = strengths(place);
      const bool fits =
          static_cast<std::uint64_t>(stages[1].count()) * layer_cache_bytes_ + stage_bytes(target_.file, target_.h, stages[1]) <=
          needs[1].capacity_bytes;
      // the plain pipeline is the same layout
      const bool known = count == 1 && split_layers(target_.file, target_.h, needs, layer_cache_bytes_) == stages;
      if (fits && !known) add(std::move(place), stages, drafter);
    }
  }

  void add(ModelPlace place, const std::vector<LayerRange>& stages, std::optional<int> drafter) {
    LayoutCandidate candidate;
    candidate.stages = stages;
    share_out(stages, place);
    const bool on_head = drafter == 0, alone = place.ranks.size() == 1;
    if (std::ranges::all_of(place.groups, [](int members) { return members == 1; })) place.groups.clear();
    candidate.layout.push_back(std::move(place));
    if (drafter) candidate.layout.push_back({1, {*drafter}, {1.0}});
    if (!drafter) push(candidate, Strategy::kIterative);
    if (on_head) push(candidate, Strategy::kSpeculative);
    if (drafter && !(on_head && alone)) push(candidate, Strategy::kPipeInfer);
  }

  void push(LayoutCandidate candidate, Strategy strategy) {
    candidate.strategy = strategy;
    found_.push_back(std::move(candidate));
  }

  /// A group is as strong as its members together.
  std::vector<RankStrength> strengths(const ModelPlace& place) const {
    std::vector<RankStrength> stages;
    auto rank = place.ranks.begin();
    for (const int members : place.groups) {
      double speed = 0;
      std::uint64_t capacity = 0;
      for (int m = 0; m < members; ++m, ++rank) {
        speed += 1 / host(*rank).ns_per_byte;
        capacity += std::min(host(*rank).free_bytes, std::numeric_limits<std::uint64_t>::max() - capacity);
      }
      stages.push_back({1 / speed, capacity});
    }
    return stages;
  }

  /// Layers per stage. Within a group, they are divided by speed in hundredths, so that they are readable and add up.
  void share_out(const std::vector<LayerRange>& stages, ModelPlace& place) const {
    auto rank = place.ranks.begin();
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto end = rank + place.groups[s];
      double speed = 0;
      for (auto r = rank; r != end; ++r) speed += 1 / host(*r).ns_per_byte;
      auto left = static_cast<double>(stages[s].count());
      for (; rank + 1 != end; ++rank) {
        const double part = static_cast<double>(stages[s].count()) / host(*rank).ns_per_byte / speed;
        place.shares.push_back(std::max(0.01, std::round(100 * part) / 100));
        left -= place.shares.back();
      }
      place.shares.push_back(std::max(0.01, std::round(100 * left) / 100));
      ++rank;
    }
  }

  const ModelFile& target_;
  std::span<const PlannedHost> hosts_;
  const std::uint64_t layer_cache_bytes_;
  std::vector<LayoutCandidate> found_;
};

}  // namespace

std::vector<int> hosts_by_speed(std::span<const PlannedHost> hosts) {
  std::vector<int> order(hosts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin() + 1, order.end(), [&](int a, int b) {
    return hosts[static_cast<std::size_t>(a)].ns_per_byte < hosts[static_cast<std::size_t>(b)].ns_per_byte;
  });
  return order;
}

simulation::NetworkOptions slowest_link(std::span<const PlannedHost> hosts, std::span<const int> ranks,
                                        const simulation::NetworkOptions& network) {
  std::optional<simulation::NetworkOptions> worst;
  for (const int rank : ranks) {
    const auto& link = hosts[static_cast<std::size_t>(rank)].link;
    if (!link) continue;
    if (!worst) worst = link;
    worst->latency = std::max(worst->latency, link->latency);
    worst->bytes_per_s = std::min(worst->bytes_per_s, link->bytes_per_s);
    worst->wake_up = std::max(worst->wake_up, link->wake_up);
  }
  return worst.value_or(network);
}

int LayoutCandidate::hosts() const {
  int count = static_cast<int>(layout.front().ranks.size());
  if (layout.size() > 1 && !draft_on_head()) ++count;
  return count;
}

std::string host_names(const LayoutCandidate& candidate, std::span<const PlannedHost> hosts) {
  std::string text;
  const ModelPlace& place = candidate.layout.front();
  const std::vector<int> groups = place.groups.empty() ? std::vector<int>(place.ranks.size(), 1) : place.groups;
  auto rank = place.ranks.begin();
  for (const int members : groups) {
    for (int member = 0; member < members; ++member, ++rank)
      text += (member > 0 ? "+" : text.empty() ? "" : ",") + hosts[static_cast<std::size_t>(*rank)].name;
  }
  if (candidate.layout.size() > 1) text += "/" + hosts[static_cast<std::size_t>(candidate.layout[1].ranks.front())].name;
  return text;
}

std::vector<LayoutCandidate> layout_candidates(const ModelFile& target, std::span<const PlannedHost> hosts, bool drafts,
                                               std::uint64_t layer_cache_bytes) {
  Candidates candidates(target, hosts, layer_cache_bytes);
  const std::vector<int> order = hosts_by_speed(hosts);
  candidates.add(order, std::nullopt);
  if (!drafts) return candidates.take();
  candidates.add(order, 0);
  if (order.size() == 1) return candidates.take();
  std::vector<int> drafters{order.back()};
  const auto speed = [&](int rank) { return hosts[static_cast<std::size_t>(rank)].ns_per_byte; };
  if (speed(order[1]) < speed(order.back())) drafters.push_back(order[1]);
  for (const int drafter : drafters) {
    std::vector<int> others = order;
    std::erase(others, drafter);
    candidates.add(others, drafter);
  }
  return candidates.take();
}

}  // namespace yamata
