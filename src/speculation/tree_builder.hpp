#pragma once
// Trees of guesses with a shape that is fixed before decoding, built from the accuracy of guesses at each place (Ghidorah's ARCA).
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

/// [level][k]: how often the candidate of rank k for the level-th token after the root was correct, both from 0. Missing ranks and levels
/// count as never correct.
using LevelAccuracies = std::vector<std::vector<double>>;

/// For one position of a calibration text: the rank of the true token among the candidates of each level; -1 if it is not among them.
using TrueRanks = std::vector<std::int32_t>;
/// The same for all positions of a text.
using RankedText = std::vector<TrueRanks>;

/// The shape: node 0 is the root, the last token of the text. Each other node is the candidate with its rank for its level, below its
/// parent. Parents come before children.
struct StaticTree {
  struct Node {
    std::int32_t parent = -1, level = -1, rank = 0;  ///< of the root: -1, -1
    friend bool operator==(const Node&, const Node&) = default;
  };
  std::vector<Node> nodes{Node{}};

  /// Rows of a run with the whole tree, including the root: W in the paper.
  int width() const { return static_cast<int>(nodes.size()); }
  /// The node with this rank below `parent`; -1 if it is not in the tree.
  int child(int parent, std::int32_t rank) const;
  /// How many of these ranks, along a path from the root, are in the tree.
  int accepted(const TrueRanks& ranks) const;
  friend bool operator==(const StaticTree&, const StaticTree&) = default;
};

/// The tree without its leaves.
StaticTree inner_tree(const StaticTree& tree);

/// Expected tokens per run of the tree: 1, plus for each guess the product of the accuracies along its path.
double expected_tokens(const StaticTree& tree, const LevelAccuracies& accuracies);

/// Builds a tree node by node: each new node is the most accurate among next siblings and first children of existing nodes; of equals the
/// first one found. Stops before `width` if no further guess is ever correct.
StaticTree greedy_tree(const LevelAccuracies& accuracies, int width);

/// Tokens per run when the texts are decoded with the tree: each run gives one token more than its correct guesses. 1 for no texts.
double replay(const StaticTree& tree, std::span<const RankedText> texts);

/// Replaces leaves, level by level, by guesses of the same level that are not in the tree and whose parent stays, if the texts then need
/// fewer runs. Per level, the `most_sets` sets of leaves with the highest estimates are tried.
StaticTree refine_tree(StaticTree tree, const LevelAccuracies& accuracies, std::span<const RankedText> texts, int most_sets = 200);

/// The tokens and the time of a run with this many rows.
struct WidthChoice {
  int width = 1;
  double tokens = 1, seconds = 1;
};
/// The width with the most tokens per second; of equals the first. `choices` is not empty.
int best_width(std::span<const WidthChoice> choices);

}  // namespace yamata
