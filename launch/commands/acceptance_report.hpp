#pragma once
// What yamata acceptance says.
#include <optional>
#include <string>

#include "src/speculation/guess_recorder.hpp"

namespace yamata {

struct AcceptanceReport {
  std::string model;
  std::size_t prompts = 0, positions = 0;
  std::vector<SourceRates> sources;  ///< the last: all together
  std::optional<StaticTree> tree;    ///< --tree
};

/// Per source a line for each number of tokens ahead; then the tokens of a run by the size of the tree.
std::string to_table(const AcceptanceReport& report);
/// The calibration file: all that --tree reads, and the rank of every true token.
std::string to_json(const AcceptanceReport& report);

}  // namespace yamata
