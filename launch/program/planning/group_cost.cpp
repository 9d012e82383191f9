#include "launch/program/planning/group_cost.hpp"

#include <cmath>
#include <utility>

namespace yamata {

GroupCost group_cost(std::span<const GroupCost> tried, int members) {
  if (members == 1 || tried.empty()) return {members};
  GroupCost below{1}, above = tried.front();
  for (std::size_t i = 1; i < tried.size() && above.members < members; ++i) below = std::exchange(above, tried[i]);
  const double part = static_cast<double>(members - below.members) / (above.members - below.members);
  const auto between = [&](auto from, auto to) { return static_cast<double>(from) + part * static_cast<double>(to - from); };
  return {members, between(below.computing, above.computing), std::llround(between(below.exchange, above.exchange))};
}

}  // namespace yamata
