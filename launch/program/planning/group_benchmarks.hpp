#pragma once
// Chooses the groups that are benchmarked before the layout is chosen, and evaluates their results.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/program/planning/layout_planner.hpp"
#include "mpi/cluster/group_benchmark.hpp"

namespace yamata {

/// The groups to benchmark, in order: all hosts, two hosts, four hosts. A group has the first host and the fastest others, with
/// shares by speed. Only hosts with fast links: if messages take milliseconds, no group is fast.
std::vector<std::vector<int>> groups_to_benchmark(const ModelFile& target, std::span<const PlannedHost> hosts);

/// Why no group of these hosts is benchmarked, in words; empty: at least one is.
std::string why_no_group(const ModelFile& target, std::span<const PlannedHost> hosts);

/// Results of groups in earlier jobs, kept for a day in `folder`, and parameters of the benchmark.
struct GroupRecord {
  std::string folder;
  std::int64_t now_s = 0;  ///< seconds since the epoch
  bool renew = false;      ///< ignore kept results
  /// bytes of weights that each member has in the benchmarked layers, or all layers if they have less; see uncached_bytes
  std::size_t bytes = 0;
};

/// The next group to benchmark; nothing: no more. If all results are kept, one group checks with three runs whether its result still holds
/// (to a third). Otherwise each group computes for 100 ms, or five runs.
std::optional<wire::BenchmarkRequest> next_group(const ModelFile& target, std::span<const PlannedHost> hosts,
                                                 std::span<const GroupTime> so_far, const GroupRecord& record);

/// Measured times of groups relative to the prediction from the hosts' speeds, by ascending number of members. Kept results are used if
/// they still hold; else the new results, which are then kept.
std::vector<GroupCost> group_costs(const ModelFile& target, std::span<const PlannedHost> hosts, std::span<const GroupTime> times,
                                   const GroupRecord& record);

}  // namespace yamata
