#pragma once
// --tree: the shape of a static tree of guesses.
#include <string>

#include "src/speculation/tree_builder.hpp"

namespace yamata {

/// Of a JSON file: its "tree", where it has one: the path to each guess by ranks from 0, such as [[0], [0, 0], [1]]; else one of so many
/// guesses, grown from the accuracies that `yamata acceptance --json` has written there of all sources together. Throws UsageError naming
/// file and cause.
StaticTree read_tree(const std::string& file, int guesses);

}  // namespace yamata
