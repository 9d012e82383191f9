#pragma once
// One of those who guess: what it says in a tree of guesses, and what its word has been worth.
#include <cstdint>
#include <span>
#include <vector>

#include "src/speculation/calibration.hpp"
#include "src/speculation/token_tree.hpp"

namespace yamata {

class Guesser {
 public:
  /// `index`: tells its words in a tree from those of others.
  explicit Guesser(int index) : index_(index) {}

  /// What its guess of probability `stated` below a living node is worth. It tells a node's most probable child first.
  float worth(const TokenTree& tree, NodeId parent, float stated) const { return calibration_(stated, !continued(tree, parent)); }
  /// Puts it into the tree for that.
  NodeId guess(TokenTree& tree, NodeId parent, std::int32_t token, float stated);
  /// Whether it guessed this node itself.
  bool guessed(const TokenTree& tree, NodeId node) const { return tree.at(node).stated_by(index_).has_value(); }
  /// Whether it guessed what follows a node.
  bool continued(const TokenTree& tree, NodeId node) const;
  /// `next` was committed after the tree's root; to be called before tree.advance.
  void learn(const TokenTree& tree, std::int32_t next);
  double first_choice_rate() const { return calibration_.first_choice_rate(); }
  /// What it had said of the text's last token when that was committed; empty: nothing.
  std::span<const Choice> last_choices() const { return last_choices_; }

 private:
  int index_;
  Calibration calibration_;
  std::vector<Choice> last_choices_;
};

}  // namespace yamata
