#pragma once
// What ranks that share layers take, where some were tried.
#include <span>

#include "mpi/simulation/virtual_network.hpp"

namespace yamata {

/// Of a group of so many.
struct GroupCost {
  int members = 2;
  double computing = 1;                 ///< times as long as the hosts' speeds and the members' columns say
  simulation::Nanoseconds meeting = 0;  ///< of a one-row run, with what members wait for each other; 0: as the network says
};

/// Between the numbers of members that were tried (`tried`, ascending) along a line, which goes on beyond the last two. One alone meets
/// nobody; where none was tried a group computes as its members' speeds say.
GroupCost group_cost(std::span<const GroupCost> tried, int members);

}  // namespace yamata
