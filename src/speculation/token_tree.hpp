#pragma once
// The tree of guessed tokens below the last committed one.
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace yamata {

class TokenGrammar;

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0;

/// The probability that a source gave a token it guessed, before calibration.
struct DraftProbability {
  int source;
  float value;
};

struct TreeNode {
  NodeId id = kNoNode, parent = kNoNode;
  std::int32_t token = 0, position = 0;
  float probability = 1;                              ///< of this token after its parent, calibrated
  float path_probability = 1;                         ///< of the whole path below the root
  bool sent = false;                                  ///< in a run that was submitted
  std::uint32_t state = 0;                            ///< of the grammar after this token, if there is one
  bool forbidden = false;                             ///< by the grammar: it can never be accepted, and its probability is 0
  bool continued = false;                             ///< a child is in the same sequence
  std::int32_t sequence = -1;                         ///< that holds the whole path; valid once sent
  std::vector<DraftProbability> draft_probabilities;  ///< of the sources that guessed it
  std::vector<NodeId> children;

  std::optional<float> draft_probability(int source) const;
};

/// Ids ascend and are never used twice; every child has a higher id than its parent.
class TokenTree {
 public:
  /// Begins with one node: the last token of the text so far.
  TokenTree(std::int32_t token, std::int32_t position);
  /// With a grammar, which outlives this; `state`: after the token.
  TokenTree(std::int32_t token, std::int32_t position, TokenGrammar* grammar, std::uint32_t state);

  const TreeNode& root() const { return nodes_.at(root_); }
  TreeNode& root() { return nodes_.at(root_); }
  bool alive(NodeId id) const { return nodes_.contains(id); }
  const TreeNode& at(NodeId id) const { return nodes_.at(id); }
  TreeNode& at(NodeId id) { return nodes_.at(id); }
  /// Nodes below the root.
  std::size_t guesses() const { return nodes_.size() - 1; }
  /// The child of `parent` with this token, or kNoNode.
  NodeId child(NodeId parent, std::int32_t token) const;
  /// Adds a guess below a living node, or raises the probability of an existing one. `draft`: its source.
  NodeId add(NodeId parent, std::int32_t token, float probability, DraftProbability draft);
  /// Commits `token` after the root: the root moves to that child (a new node if no source guessed it), and everything that is not below it
  /// is removed. Returns the removed nodes, including the old root, in ascending order of ids.
  std::vector<TreeNode> advance(std::int32_t token);
  /// Removes everything below the root; returns the removed nodes in ascending order of ids.
  std::vector<TreeNode> prune();
  /// All living ids, ascending.
  std::vector<NodeId> ids() const;

 private:
  NodeId insert(NodeId parent, std::int32_t token, std::int32_t position, float probability);
  void rescale(NodeId id);

  TokenGrammar* grammar_ = nullptr;
  std::unordered_map<NodeId, TreeNode> nodes_;
  NodeId root_ = kNoNode, last_ = kNoNode;
};

}  // namespace yamata
