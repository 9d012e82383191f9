#include "src/speculation/source_calibration.hpp"

#include <algorithm>

namespace yamata {

NodeId SourceCalibration::add(TokenTree& tree, NodeId parent, std::int32_t token, float draft_probability) {
  return tree.add(parent, token, calibrated(tree, parent, draft_probability), {index_, draft_probability});
}

bool SourceCalibration::continued(const TokenTree& tree, NodeId node) const {
  const auto& children = tree.at(node).children;
  return std::any_of(children.begin(), children.end(), [&](NodeId id) { return guessed(tree, id); });
}

void SourceCalibration::learn(const TokenTree& tree, std::int32_t next) {
  last_choices_.clear();
  for (const NodeId id : tree.root().children) {
    const TreeNode& child = tree.at(id);
    if (const auto probability = child.draft_probability(index_)) last_choices_.push_back({*probability, child.token});
  }
  calibration_.decided(last_choices_, next);
}

}  // namespace yamata
