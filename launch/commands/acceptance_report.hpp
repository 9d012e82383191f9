#pragma once
// The output of yamata acceptance.
#include <string>
#include <vector>

#include "src/speculation/guess_recorder.hpp"
#include "src/speculation/recorded_ranks.hpp"

namespace yamata {

struct AcceptanceReport {
  std::string model;
  std::size_t prompts = 0, positions = 0;
  std::vector<SourceRates> sources;  ///< the last one: all sources together
  std::string tree_file{};           ///< --tree; empty: none
  std::vector<StaticTree> trees{};   ///< of it
  GuessLimits limits;                ///< of the sources' guesses
};

/// Per source, a line for each number of tokens ahead; then the tokens per run as a function of the tree's size, for the best trees of
/// these texts, and for those of --tree.
std::string to_table(const AcceptanceReport& report);
/// The calibration file: what --tree reads, and the rank that the source gave to each token of the text.
std::string to_json(const AcceptanceReport& report);

}  // namespace yamata
