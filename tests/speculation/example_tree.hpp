#pragma once
// A small tree of guesses.
#include <optional>

#include "src/speculation/token_tree.hpp"

namespace yamata::test {

/// root -> a(.8) -> b(.5), c(.4); root -> d(.1) -> e(.9). `drafted`: the draft's own probability of all guesses; without it, as the tree's.
struct ExampleTree {
  explicit ExampleTree(std::optional<float> drafted = {}) : tree(1, 10) {
    const auto add = [&](NodeId parent, std::int32_t token, float p) { return tree.add(parent, token, p, {0, drafted.value_or(p)}); };
    root = tree.root().id;
    a = add(root, 2, 0.8f);
    b = add(a, 3, 0.5f);
    c = add(a, 4, 0.4f);
    d = add(root, 5, 0.1f);
    e = add(d, 6, 0.9f);
  }
  TokenTree tree;
  NodeId root, a, b, c, d, e;
};

}  // namespace yamata::test
