#pragma once
// The shape of the tree that a run verifies, and how files name its guesses.
#include <cstdint>
#include <span>
#include <vector>

#include "src/speculation/token_tree.hpp"
#include "src/speculation/tree_builder.hpp"

namespace yamata {

/// The shape of a run that begins with the tree's root, by its `nodes` in the order of its rows, parents before children. The rank of a
/// guess is that among all children of its parent, in the source's own order, whether they are in the run or not.
StaticTree run_shape(const TokenTree& tree, std::span<const NodeId> nodes);

/// For every node of a tree, the ranks of the guesses from the root to it; of the root, none.
std::vector<std::vector<std::int32_t>> paths_of(const StaticTree& tree);

}  // namespace yamata
