#pragma once
// Which groups share a layer before the layout is chosen, and what the planner learns from it.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/planning/layout_planner.hpp"
#include "mpi/cluster/rehearsal.hpp"

namespace yamata {

/// Groups that could rehearse, in this order: all of the hosts, two and four of them; the first, then the fastest others, shared out by
/// their speeds. Only such as are near: where messages take milliseconds, no group is fast.
std::vector<std::vector<int>> groups_to_rehearse(const ModelFile& target, std::span<const PlannedHost> hosts);

/// What groups took in earlier jobs, kept for a day in `folder`, and how they rehearse.
struct GroupRecord {
  std::string folder;
  std::int64_t now_s = 0;  ///< seconds of the calendar clock
  bool renew = false;      ///< what is kept does not count
  std::size_t bytes = 0;   ///< of weights that each member has in the layers that it rehearses, or all; see uncached_bytes
};

/// The group to rehearse after those that have; nothing: no more. Where all are kept, one says whether that still holds (to a third), in
/// three runs; else each has a part of 100 ms to compute, or five runs.
std::optional<wire::Rehearse> next_group(const ModelFile& target, std::span<const PlannedHost> hosts, std::span<const GroupTime> so_far,
                                         const GroupRecord& record);

/// What groups take against what the hosts' speeds say of their parts, ascending: as kept where that holds, else as those took that have
/// rehearsed, which is kept.
std::vector<GroupCost> group_costs(const ModelFile& target, std::span<const PlannedHost> hosts, std::span<const GroupTime> times,
                                   const GroupRecord& record);

}  // namespace yamata
