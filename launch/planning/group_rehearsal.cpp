#include "launch/planning/group_rehearsal.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "src/model/shard.hpp"
#include "src/model/weights.hpp"

namespace yamata {
namespace {

constexpr simulation::Nanoseconds kFar = 2'000'000;
constexpr double kComputing_s = 0.06;   // of a group
constexpr int kFewest = 4, kMost = 16;  // runs

const PlannedHost& host(std::span<const PlannedHost> hosts, int rank) { return hosts[static_cast<std::size_t>(rank)]; }

std::int64_t layer_of(const ModelFile& target) { return target.h.layers / 2; }

std::vector<double> shares_of(std::span<const PlannedHost> hosts, std::span<const int> ranks) {
  std::vector<double> shares;
  for (const int rank : ranks) shares.push_back(1 / host(hosts, rank).ns_per_byte);
  return shares;
}

/// Of one token, as the hosts' speeds say; the mean of the members.
double expected_s(const ModelFile& target, std::span<const PlannedHost> hosts, std::span<const int> ranks) {
  const std::int64_t layer = layer_of(target);
  const std::vector<double> shares = shares_of(hosts, ranks);
  double sum_ns = 0;
  for (std::size_t m = 0; m < ranks.size(); ++m) {
    const Shard shard(target.h, shares, static_cast<int>(m));
    sum_ns += static_cast<double>(stage_bytes(target.file, target.h, {layer, layer + 1}, shard)) * host(hosts, ranks[m]).ns_per_byte;
  }
  return 1e-9 * sum_ns / static_cast<double>(ranks.size());
}

}  // namespace

std::vector<wire::Rehearse> groups_to_rehearse(const ModelFile& target, std::span<const PlannedHost> hosts) {
  std::vector<wire::Rehearse> groups;
  if (hosts.empty()) return groups;
  const std::vector<int> order = hosts_by_speed(hosts);
  const auto most = static_cast<int>(std::min<std::int64_t>(std::ssize(order), most_members(target.h)));
  for (const int members : std::set<int>{std::min(2, most), std::min(4, most), most}) {
    std::vector<int> ranks(order.begin(), order.begin() + members);
    std::ranges::sort(ranks);
    const auto far = [&](int rank) { return host(hosts, rank).link && host(hosts, rank).link->latency > kFar; };
    if (members < 2 || std::ranges::any_of(ranks, far)) continue;
    const double runs = kComputing_s / expected_s(target, hosts, ranks);
    groups.push_back({.ranks = {ranks.begin(), ranks.end()},
                      .shares = shares_of(hosts, ranks),
                      .layer = static_cast<std::int32_t>(layer_of(target)),
                      .runs = std::clamp(static_cast<int>(std::min<double>(runs, kMost)), kFewest, kMost)});
  }
  return groups;
}

std::vector<GroupCost> group_costs(const ModelFile& target, std::span<const PlannedHost> hosts, std::span<const GroupTime> times) {
  std::vector<GroupCost> costs;
  for (const GroupTime& time : times)
    costs.push_back({static_cast<int>(time.ranks.size()), time.computing_s / expected_s(target, hosts, time.ranks),
                     std::llround(1e9 * time.meeting_s)});
  return costs;
}

}  // namespace yamata
