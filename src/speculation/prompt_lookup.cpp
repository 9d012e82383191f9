#include "src/speculation/prompt_lookup.hpp"

#include <algorithm>

namespace yamata {
namespace {

/// It has no probabilities of its own; calibration learns how often a guess is accepted.
constexpr float kProbabilityOfAll = 0.5f;

}  // namespace

std::span<const std::int32_t> PromptLookup::continuation(std::span<const std::int32_t> text, std::size_t longest, std::size_t most) {
  for (std::size_t n = std::min(longest, text.size() - 1); n > 0; --n) {
    const auto end = text.last(n), before = text.first(text.size() - 1);  // an earlier passage ends before the last token
    const auto found = std::search(before.begin(), before.end(), end.begin(), end.end());
    if (found == before.end()) continue;
    const auto after = static_cast<std::size_t>(found - before.begin()) + n;
    return text.subspan(after, std::min(most, text.size() - after));
  }
  return {};
}

bool PromptLookup::guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) {
  NodeId parent = tree.root().id;
  bool grown = false;
  for (const std::int32_t token : continuation(text, longest_, static_cast<std::size_t>(demand.most))) {
    NodeId node = tree.child(parent, token);
    if (node == kNoNode || !calibration_.guessed(tree, node)) {
      node = calibration_.add(tree, parent, token, kProbabilityOfAll);
      grown = true;
    }
    parent = node;
  }
  return grown;
}

}  // namespace yamata
