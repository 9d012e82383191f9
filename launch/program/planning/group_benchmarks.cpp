#include "launch/program/planning/group_benchmarks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>

#include "launch/program/planning/measurement_cache.hpp"
#include "src/model/layer_probe.hpp"
#include "src/model/shard.hpp"
#include "src/model/weights.hpp"

namespace yamata {
namespace {

constexpr simulation::Nanoseconds kFar = 2'000'000;
constexpr double kComputing_s = 0.1;                        // of all groups together
constexpr int kCheckRuns = 3, kMinRuns = 5, kMaxRuns = 17;  // numbers of runs
constexpr double kAgree = 4.0 / 3;

const PlannedHost& host(std::span<const PlannedHost> hosts, int rank) { return hosts[static_cast<std::size_t>(rank)]; }

/// Enough layers that no member's caches keep their weights from one run to the next.
LayerRange layers_of(const ModelFile& target, std::size_t members, std::size_t bytes) {
  return layers_of_bytes(target, target.h.layers / 2, members * bytes);
}

std::vector<double> shares_of(std::span<const PlannedHost> hosts, std::span<const int> ranks) {
  std::vector<double> shares;
  for (const int rank : ranks) shares.push_back(1 / host(hosts, rank).ns_per_byte);
  return shares;
}

/// Time of one token as predicted from the hosts' speeds: the mean over the members.
double expected_s(const ModelFile& target, std::span<const PlannedHost> hosts, std::span<const int> ranks, LayerRange layers) {
  const std::vector<double> shares = shares_of(hosts, ranks);
  double sum_ns = 0;
  for (std::size_t m = 0; m < ranks.size(); ++m) {
    const Shard shard(target.h, shares, static_cast<int>(m));
    std::size_t bytes = 0;
    for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) bytes += layer_bytes(target.file, target.h, layer, shard);
    sum_ns += static_cast<double>(bytes) * host(hosts, ranks[m]).ns_per_byte;
  }
  return 1e-9 * sum_ns / static_cast<double>(ranks.size());
}

GroupCost cost_of(const ModelFile& target, std::span<const PlannedHost> hosts, const GroupTime& time, std::size_t bytes) {
  const LayerRange layers = layers_of(target, time.ranks.size(), bytes);
  return {static_cast<int>(time.ranks.size()), time.computing_s / expected_s(target, hosts, time.ranks, layers),
          std::llround(1e9 * time.exchange_s)};
}

/// The key for a group with this model on these hosts.
MeasurementKey key_of(const ModelFile& target, std::span<const PlannedHost> hosts, std::span<const int> ranks) {
  std::string names;
  for (const int rank : ranks) names += fmt::format("{} {} {}\n", rank, host(hosts, rank).name, host(hosts, rank).threads);
  return {.host = hosts.front().name,
          .isa = "group",
          .fingerprint = target.file.fingerprint() ^ std::hash<std::string>()(names),
          .threads = static_cast<int>(ranks.size())};
}

/// The kept results of all groups; empty if one is missing.
std::vector<GroupCost> read_kept(const ModelFile& target, std::span<const PlannedHost> hosts, const GroupRecord& record) {
  std::vector<GroupCost> kept;
  for (const std::vector<int>& ranks : groups_to_benchmark(target, hosts)) {
    const auto cost = read_group_cost(record.folder, key_of(target, hosts, ranks), record.now_s);
    if (record.renew || !cost) return {};
    kept.push_back(*cost);
  }
  return kept;
}

/// Whether the first group's new result agrees with the kept one.
bool holds(std::span<const GroupCost> kept, const GroupCost& first) {
  return !kept.empty() && within_factor(kAgree, kept.front().computing, first.computing) &&
         within_factor(kAgree, static_cast<double>(kept.front().exchange), static_cast<double>(first.exchange));
}

}  // namespace

std::vector<std::vector<int>> groups_to_benchmark(const ModelFile& target, std::span<const PlannedHost> hosts) {
  std::vector<std::vector<int>> groups;
  if (hosts.empty()) return groups;
  const std::vector<int> order = hosts_by_speed(hosts);
  const auto most = static_cast<int>(std::min<std::int64_t>(std::ssize(order), most_members(target.h)));
  const auto far = [&](int rank) { return host(hosts, rank).link && host(hosts, rank).link->latency > kFar; };
  std::vector<int> sizes{most};
  std::ranges::copy_if(std::array{2, 4}, std::back_inserter(sizes), [&](int members) { return members < most; });
  for (const int members : sizes) {
    if (members < 2) continue;
    std::vector<int> ranks(order.begin(), order.begin() + members);
    std::ranges::sort(ranks);
    if (std::ranges::none_of(ranks, far)) groups.push_back(std::move(ranks));
  }
  return groups;
}

std::string why_no_group(const ModelFile& target, std::span<const PlannedHost> hosts) {
  if (!groups_to_benchmark(target, hosts).empty()) return {};
  if (hosts.size() < 2) return "there is only one machine";
  if (most_members(target.h) < 2) return "the layers of this model cannot be shared";
  return fmt::format("messages between the fastest machines take more than {} ms", kFar / 1'000'000);
}

std::optional<wire::BenchmarkRequest> next_group(const ModelFile& target, std::span<const PlannedHost> hosts,
                                                 std::span<const GroupTime> so_far, const GroupRecord& record) {
  const auto groups = groups_to_benchmark(target, hosts);
  if (so_far.size() >= groups.size()) return std::nullopt;
  const std::vector<GroupCost> kept = read_kept(target, hosts, record);
  if (!so_far.empty() && holds(kept, cost_of(target, hosts, so_far.front(), record.bytes))) return std::nullopt;
  const std::vector<int>& ranks = groups[so_far.size()];
  const LayerRange layers = layers_of(target, ranks.size(), record.bytes);
  const double runs = kComputing_s / static_cast<double>(groups.size()) / expected_s(target, hosts, ranks, layers);
  const int counted = std::clamp(static_cast<int>(std::min<double>(runs, kMaxRuns)), kMinRuns, kMaxRuns);
  return wire::BenchmarkRequest{.ranks = {ranks.begin(), ranks.end()},
                                .shares = shares_of(hosts, ranks),
                                .layer = static_cast<std::int32_t>(layers.begin),
                                .layers = static_cast<std::int32_t>(layers.count()),
                                .runs = so_far.empty() && !kept.empty() ? kCheckRuns : counted};
}

std::vector<GroupCost> group_costs(const ModelFile& target, std::span<const PlannedHost> hosts, std::span<const GroupTime> times,
                                   const GroupRecord& record) {
  std::vector<GroupCost> costs;
  for (const GroupTime& time : times) costs.push_back(cost_of(target, hosts, time, record.bytes));
  if (const std::vector<GroupCost> kept = read_kept(target, hosts, record); !costs.empty() && holds(kept, costs.front())) {
    costs = kept;
  } else {
    for (std::size_t i = 0; i < times.size(); ++i)
      keep_group_cost(record.folder, key_of(target, hosts, times[i].ranks), costs[i], record.now_s);
  }
  std::ranges::sort(costs, {}, &GroupCost::members);
  return costs;
}

}  // namespace yamata
