#pragma once
// --tree: the shape of a fixed tree of guesses.
#include <string>

#include "src/speculation/tree_builder.hpp"

namespace yamata {

/// Reads a JSON file. If it has a "tree", this is the path to each guess by ranks from 0, such as [[0], [0, 0], [1]]. Otherwise a tree of
/// `guesses` guesses is grown from the acceptance rates of all sources together, as written by `yamata acceptance --json`. Throws
/// UsageError naming file and cause.
StaticTree read_tree(const std::string& file, int guesses);

}  // namespace yamata
