#pragma once
// --tree: the shape of a fixed tree of guesses.
#include <cstdint>
#include <string>
#include <vector>

#include "src/speculation/tree_builder.hpp"

namespace yamata {

/// Reads a JSON file. If it has a "tree", this is the path to each guess by ranks from 0, such as [[0], [0, 0], [1]]. Otherwise a tree of
/// `guesses` guesses is grown from the acceptance rates of all sources together, as written by `yamata acceptance --json`. Throws
/// UsageError naming file and cause.
StaticTree read_tree(const std::string& file, int guesses);

/// The tree of a run; run 0: of no run.
struct RunTree {
  std::uint64_t run = 0;
  StaticTree tree;
};
/// The trees of a file of `yamata run --trace`, or that of read_tree. Throws as read_tree, and if the runs of a trace had no guesses.
std::vector<RunTree> read_trees(const std::string& file, int guesses);

}  // namespace yamata
