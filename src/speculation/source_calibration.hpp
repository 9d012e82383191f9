#pragma once
// One source's guesses in a tree, and the calibration of its draft probabilities.
#include <cstdint>
#include <span>
#include <vector>

#include "src/speculation/calibration.hpp"
#include "src/speculation/token_tree.hpp"

namespace yamata {

/// The bookkeeping of all sources: a tree stores, for every guess, the draft probability of each source that made it. The source's
/// calibration learns from which guesses are accepted. Outlives trees.
class SourceCalibration {
 public:
  /// `index`: distinguishes its guesses in a tree from those of other sources.
  explicit SourceCalibration(int index) : index_(index) {}

  /// Calibrated probability of a guess below a living node. A source adds a node's most probable child first.
  float calibrated(const TokenTree& tree, NodeId parent, float draft_probability) const {
    return calibration_(draft_probability, !continued(tree, parent));
  }
  /// Adds a guess with its calibrated probability.
  NodeId add(TokenTree& tree, NodeId parent, std::int32_t token, float draft_probability);
  /// Whether this source guessed the node.
  bool guessed(const TokenTree& tree, NodeId node) const { return tree.at(node).draft_probability(index_).has_value(); }
  /// Whether this source guessed what follows the node.
  bool continued(const TokenTree& tree, NodeId node) const;
  /// `next` is committed after the tree's root; call this before tree.advance.
  void learn(const TokenTree& tree, std::int32_t next);
  int index() const { return index_; }
  /// How often a first choice of this draft probability is accepted.
  float first_choice(float draft_probability) const { return calibration_(draft_probability, true); }
  /// Share of the text's tokens that were this source's first choice, of those that it had one for.
  double first_choice_rate() const { return calibration_.first_choice_rate(); }
  /// Its guesses for the position of the text's last token; empty: none.
  std::span<const Choice> last_choices() const { return last_choices_; }

 private:
  int index_;
  Calibration calibration_;
  std::vector<Choice> last_choices_;
};

}  // namespace yamata
