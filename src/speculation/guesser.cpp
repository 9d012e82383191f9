#include "src/speculation/guesser.hpp"

#include <algorithm>

namespace yamata {

NodeId Guesser::guess(TokenTree& tree, NodeId parent, std::int32_t token, float stated) {
  return tree.add(parent, token, worth(tree, parent, stated), {index_, stated});
}

bool Guesser::continued(const TokenTree& tree, NodeId node) const {
  const auto& children = tree.at(node).children;
  return std::any_of(children.begin(), children.end(), [&](NodeId id) { return guessed(tree, id); });
}

void Guesser::learn(const TokenTree& tree, std::int32_t next) {
  last_choices_.clear();
  for (const NodeId id : tree.root().children) {
    const TreeNode& child = tree.at(id);
    if (const auto stated = child.stated_by(index_)) last_choices_.push_back({*stated, child.token});
  }
  calibration_.decided(last_choices_, next);
}

}  // namespace yamata
