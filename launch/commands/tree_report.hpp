#pragma once
// What yamata inspect --tree shows.
#include <string>
#include <vector>

#include "launch/program/options/tree_file.hpp"

namespace yamata {

/// A tree and its attention mask: a line per row of the run, with a # in the column of each row that it sees. `all`: the trees of a trace,
/// or this one alone.
std::string to_picture(const RunTree& shown, const std::vector<RunTree>& all);
/// The same as JSON: the path to each guess, and the mask as a list of 0 and 1 for each row.
std::string to_json(const RunTree& shown);

}  // namespace yamata
