#include "src/speculation/run_shape.hpp"

#include <algorithm>

#include "src/speculation/policy.hpp"

namespace yamata {

StaticTree run_shape(const TokenTree& tree, std::span<const NodeId> nodes) {
  StaticTree shape;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const NodeId parent = tree.at(nodes[i]).parent;
    const std::vector<NodeId> siblings = drafted_order(tree, parent);
    const auto row = std::ranges::find(nodes.first(i), parent) - nodes.begin();
    const auto rank = std::ranges::find(siblings, nodes[i]) - siblings.begin();
    shape.nodes.push_back(
        {static_cast<std::int32_t>(row), shape.nodes[static_cast<std::size_t>(row)].level + 1, static_cast<std::int32_t>(rank)});
  }
  return shape;
}

std::vector<std::vector<std::int32_t>> paths_of(const StaticTree& tree) {
  std::vector<std::vector<std::int32_t>> paths{{}};
  for (std::size_t i = 1; i < tree.nodes.size(); ++i) {
    paths.push_back(paths[static_cast<std::size_t>(tree.nodes[i].parent)]);
    paths.back().push_back(tree.nodes[i].rank);
  }
  return paths;
}

}  // namespace yamata
