#pragma once
// yamata profile --tree-from: trees of several widths, the tokens and the time of a step with each, and the best of them (Ghidorah's ARCA).
#include <functional>
#include <string>
#include <vector>

#include "launch/commands/profile_options.hpp"
#include "launch/program/options/tree_file.hpp"
#include "launch/program/planning/tree_bench.hpp"

namespace yamata {

struct TreeChoice {
  StaticTree tree;
  double greedy_tokens = 1, tokens = 1;  ///< per step, by replay: of the greedy tree, and of the refined one, which is `tree`
  double target_s = 0, heads_s = 0;      ///< per step

  double tokens_per_s() const { return tokens / (target_s + heads_s); }
};

struct TreeReport {
  std::string rates_file, tree_file, units;
  int context = 0;                    ///< tokens in the cache
  std::vector<TreeChoice> choices{};  ///< the first without guesses
  std::vector<int> best_widths{};     ///< of the best tree in each round
};

/// The root alone, then refined trees of 2, 4, 8, 16, 32 and 64 rows; the last may be smaller if no other guess was ever right.
std::vector<TreeChoice> build_trees(const TreeRates& rates, const std::function<void()>& interrupted);
/// Sets the times, each the median of `rounds` in which all are measured in turn. Returns the width of the best tree in each round.
std::vector<int> measure_steps(TreeBench& bench, std::vector<TreeChoice>& choices, int rounds, const std::function<void()>& interrupted);
/// A line, with its end, if more than half of the rounds found another tree to be the best than `best`; else empty.
std::string disagreement(const std::vector<int>& best_widths, int best);
/// That with the most tokens per second, of those with guesses. The times must be set.
const TreeChoice& best_tree(const std::vector<TreeChoice>& choices);

/// 256, as in the paper, or as many as fit beside the widest tree into the model's context.
int usual_context(const Hyperparameters& h);
/// Throws UsageError if --contexts is not one number, or leaves no room for the widest tree.
void require_room_for_trees(const ProfileOptions& options, const Hyperparameters& h);
/// Warns if too few guesses were recorded for the widest tree.
void warn_of_few_guesses(const TreeRates& rates, const std::string& file);

std::string to_table(const TreeReport& report);
/// With a "tree", as --tree reads it.
std::string to_json(const TreeReport& report);

}  // namespace yamata
