#pragma once
// Typical acceptance over a tree of guesses.
#include <vector>

#include "mpi/decoding/tree_runs.hpp"
#include "src/sampling/typical.hpp"

namespace yamata {

/// The tokens of the longest path of sent guesses below the tree's root, each of which is typical by the logits of its parent; of equally
/// long paths, the most probable. `result` has all logits of the run's rows.
std::vector<std::int32_t> typical_path(const TokenTree& tree, const TreeRuns::Run& run, const RunResult& result,
                                       const TypicalAcceptance& rule);

}  // namespace yamata
