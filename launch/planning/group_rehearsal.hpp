#pragma once
// Which groups share a layer before the layout is chosen, and what the planner learns from it.
#include <span>
#include <vector>

#include "launch/planning/layout_planner.hpp"
#include "mpi/cluster/rehearsal.hpp"

namespace yamata {

/// Two of the hosts, four, and all: the first, then the fastest others, shared out by their speeds. Only such as are near: where messages
/// take milliseconds, no group is fast. It takes some 60 ms of computing each.
std::vector<wire::Rehearse> groups_to_rehearse(const ModelFile& target, std::span<const PlannedHost> hosts);

/// What they took, against what the hosts' speeds say of their parts.
std::vector<GroupCost> group_costs(const ModelFile& target, std::span<const PlannedHost> hosts, std::span<const GroupTime> times);

}  // namespace yamata
