#pragma once
// The output of yamata acceptance.
#include <optional>
#include <string>

#include "src/speculation/guess_recorder.hpp"
#include "src/speculation/recorded_ranks.hpp"

namespace yamata {

struct AcceptanceReport {
  std::string model;
  std::size_t prompts = 0, positions = 0;
  std::vector<SourceRates> sources;  ///< the last one: all sources together
  std::optional<StaticTree> tree;    ///< for --tree
  GuessLimits limits;                ///< of the sources' guesses
};

/// Per source, a line for each number of tokens ahead; then the tokens per run as a function of the tree's size.
std::string to_table(const AcceptanceReport& report);
/// The calibration file: what --tree reads, and the rank that the source gave to each token of the text.
std::string to_json(const AcceptanceReport& report);

}  // namespace yamata
