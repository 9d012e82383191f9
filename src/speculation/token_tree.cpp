#include "src/speculation/token_tree.hpp"

#include <algorithm>

#include "src/grammar/token_grammar.hpp"

namespace yamata {

std::optional<float> TreeNode::draft_probability(int source) const {
  for (const DraftProbability& draft : draft_probabilities) {
    if (draft.source == source) return draft.value;
  }
  return std::nullopt;
}

TokenTree::TokenTree(std::int32_t token, std::int32_t position) : TokenTree(token, position, nullptr, 0) {}

TokenTree::TokenTree(std::int32_t token, std::int32_t position, TokenGrammar* grammar, std::uint32_t state) : grammar_(grammar) {
  root_ = insert(kNoNode, token, position, 1);
  root().state = state;
}

NodeId TokenTree::insert(NodeId parent, std::int32_t token, std::int32_t position, float probability) {
  TreeNode node;
  node.id = ++last_;
  node.parent = parent;
  node.token = token;
  node.position = position;
  node.probability = probability;
  node.path_probability = probability;
  if (grammar_ && parent != kNoNode) {
    node.state = grammar_->after_guess(nodes_.at(parent).state, token);
    node.forbidden = node.state == TokenGrammar::kForbidden;
    if (node.forbidden) node.probability = node.path_probability = 0;
  }
  if (parent != kNoNode) {
    node.path_probability *= nodes_.at(parent).path_probability;
    nodes_.at(parent).children.push_back(node.id);
  }
  nodes_.emplace(node.id, std::move(node));
  return last_;
}

NodeId TokenTree::child(NodeId parent, std::int32_t token) const {
  for (const NodeId id : nodes_.at(parent).children) {
    if (nodes_.at(id).token == token) return id;
  }
  return kNoNode;
}

NodeId TokenTree::add(NodeId parent, std::int32_t token, float probability, DraftProbability draft) {
  NodeId id = child(parent, token);
  if (id == kNoNode) {
    id = insert(parent, token, nodes_.at(parent).position + 1, probability);
  } else if (probability > nodes_.at(id).probability && !nodes_.at(id).forbidden) {
    nodes_.at(id).probability = probability;
    rescale(id);
  }
  TreeNode& node = nodes_.at(id);
  if (!node.draft_probability(draft.source)) node.draft_probabilities.push_back(draft);
  return id;
}

std::vector<NodeId> TokenTree::ids() const {
  std::vector<NodeId> ids;
  ids.reserve(nodes_.size());
  for (const auto& [id, node] : nodes_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

/// Path probabilities from a node down; the root's own is 1.
void TokenTree::rescale(NodeId id) {
  TreeNode& node = nodes_.at(id);
  node.path_probability = id == root_ ? 1 : node.probability * nodes_.at(node.parent).path_probability;
  for (const NodeId child : node.children) rescale(child);
}

std::vector<TreeNode> TokenTree::prune() {
  std::vector<TreeNode> gone;
  for (const NodeId id : ids()) {
    if (id != root_) gone.push_back(std::move(nodes_.at(id)));
  }
  for (const TreeNode& node : gone) nodes_.erase(node.id);
  root().children.clear();
  root().continued = false;
  return gone;
}

std::vector<TreeNode> TokenTree::advance(std::int32_t token) {
  NodeId next = child(root_, token);
  if (next == kNoNode) next = insert(root_, token, root().position + 1, 1);
  std::vector<TreeNode> gone;
  for (const NodeId id : ids()) {  // parents before children
    if (id == next || nodes_.contains(nodes_.at(id).parent)) continue;
    gone.push_back(std::move(nodes_.at(id)));
    nodes_.erase(id);
  }
  root_ = next;
  root().parent = kNoNode;
  rescale(root_);
  return gone;
}

}  // namespace yamata
