#pragma once
// Time of layers that ranks share, from group benchmarks.
#include <span>

#include "mpi/simulation/virtual_network.hpp"

namespace yamata {

/// For a group of `members` members.
struct GroupCost {
  int members = 2;
  double computing = 1;  ///< measured computing time, relative to what the hosts' speeds and the members' columns predict
  /// time of one exchange of a one-row run, including waits for members; 0: predicted from the network
  simulation::Nanoseconds exchange = 0;
};

/// Interpolates linearly between the measured numbers of members (`tried`, ascending), and extrapolates beyond the last two. A single
/// member has no exchange. Without measurements, a group computes as its members' speeds predict.
GroupCost group_cost(std::span<const GroupCost> tried, int members);

}  // namespace yamata
