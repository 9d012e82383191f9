#pragma once
// --tree: the shape of a fixed tree of guesses.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/speculation/recorded_ranks.hpp"

namespace yamata {

/// Rows of the trees that are compared, as in Ghidorah's paper.
inline constexpr std::array kTreeWidths{2, 4, 8, 16, 32, 64};

/// Reads a JSON file. If it has a "tree", this is the path to each guess by ranks from 0, such as [[0], [0, 0], [1]]. Otherwise a tree of
/// `guesses` guesses is grown from the acceptance rates of all sources together, as written by `yamata acceptance --json`; warns if too few
/// guesses were recorded for it. If the number is `given` by the user, and the file has "choices" of several sizes, as written by
/// `yamata profile --tree-out`, it is the tree of that size. Throws ModelError naming file and cause.
StaticTree read_tree(const std::string& file, int guesses, bool given = false);

/// All trees with guesses of such a file: its choices, its only tree, or those of kTreeWidths rows, as far as the rates allow.
std::vector<StaticTree> read_all_trees(const std::string& file);

/// What `yamata acceptance --json` has recorded of all sources together.
struct TreeRates {
  LevelAccuracies accuracies;  ///< of all ranks in the texts
  std::vector<RankedText> texts;
  GuessLimits limits;  ///< none in files of earlier versions, which do not say it
};
/// Throws ModelError naming file, cause and `flag`, also if no guess was ever right.
TreeRates read_rates(const std::string& file, const char* flag);
/// Warns if a tree of `guesses` guesses that was built from such rates might be another one with more recorded guesses.
void warn_of_few_guesses(const std::string& file, const GuessLimits& limits, const StaticTree& tree, int guesses);

/// The tree of a run; run 0: of no run.
struct RunTree {
  std::uint64_t run = 0;
  StaticTree tree;
};
/// The trees of a file of `yamata run --trace`, or that of read_tree. Throws as read_tree, and if the runs of a trace had no guesses.
std::vector<RunTree> read_run_trees(const std::string& file, int guesses, bool given = false);

}  // namespace yamata
