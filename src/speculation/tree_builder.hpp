#pragma once
// Trees of guesses whose shape is fixed before decoding begins, made from how often guesses of each place were right (Ghidorah's ARCA).
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

/// [level][k]: how often the candidate of rank k for the level-th token after the root was the true one, both from 0. Ranks and levels
/// that are not there are never right.
using LevelAccuracies = std::vector<std::vector<double>>;

/// Of one position of a calibration text: the rank of the true token among the candidates for each level; -1 where it is not among them.
using TrueRanks = std::vector<std::int32_t>;
/// Those of a text, position by position.
using RankedText = std::vector<TrueRanks>;

/// Which candidates are guessed: node 0 is the root, the last token of the text, and each other is the candidate of that rank for its
/// level, below its parent. Parents come before children.
struct StaticTree {
  struct Node {
    std::int32_t parent = -1, level = -1, rank = 0;  ///< of the root: -1, -1
    friend bool operator==(const Node&, const Node&) = default;
  };
  std::vector<Node> nodes{Node{}};

  /// Rows of a run that holds all of it, the root among them: W of the paper.
  int width() const { return static_cast<int>(nodes.size()); }
  /// The node of that rank below `parent`; -1 where it is not in the tree.
  int child(int parent, std::int32_t rank) const;
  /// How many of these, one after the other, the tree holds.
  int accepted(const TrueRanks& ranks) const;
  friend bool operator==(const StaticTree&, const StaticTree&) = default;
};

/// The tree without its leaves.
StaticTree inner_tree(const StaticTree& tree);

/// Tokens that a run of the tree is expected to give: 1, and for each guess the product of the accuracies along its path.
double expected_tokens(const StaticTree& tree, const LevelAccuracies& accuracies);

/// Grown node by node: each is the most accurate among next siblings and first children of those that are there; of equals the first in
/// reach. Ends below `width` where no further guess is ever right.
StaticTree greedy_tree(const LevelAccuracies& accuracies, int width);

/// Tokens per run when the texts are decoded with the tree: each run gives one token more than it guessed right. 1 for no texts.
double replay(const StaticTree& tree, std::span<const RankedText> texts);

/// Exchanges leaves, level by level, for guesses of the same level that are not in the tree and whose parent stays, where the texts are
/// decoded in fewer runs: of the sets of leaves the `most_sets` of the highest estimates are tried per level.
StaticTree refine_tree(StaticTree tree, const LevelAccuracies& accuracies, std::span<const RankedText> texts, int most_sets = 200);

/// What a run of so many rows gives and takes.
struct WidthChoice {
  int width = 1;
  double tokens = 1, seconds = 1;
};
/// The width of the most tokens per second, the first of equals. `choices` is not empty.
int best_width(std::span<const WidthChoice> choices);

}  // namespace yamata
