#include "src/speculation/shaped_policies.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace yamata {

StaticTree static_tree(int guesses) {
  LevelAccuracies accuracies;
  for (const double first : {.64, .49, .43, .35}) {
    auto& level = accuracies.emplace_back();
    for (double share = 1; level.size() < 8; share /= 3) level.push_back(first * share);
  }
  return greedy_tree(accuracies, guesses + 1);
}

namespace {

StaticTree shape_of(const PolicyOptions& options) { return options.tree ? *options.tree : static_tree(options.draft); }

}  // namespace

DraftOptions draft_options(const PolicyOptions& policy) {
  DraftOptions options;
  if (policy.name == "static-tree") options.shape = shape_of(policy);
  if (policy.name == "chain") {
    options.width = 1;
    options.threshold = 0;
    options.children = options.branches = std::max(1, policy.branches);
    options.accept = std::max(0.0f, policy.accept);
    options.split = std::max(0.0f, policy.split);
  }
  if (policy.name == "dynamic-tree") {
    options.depth = policy.depth;
    options.children = policy.children;
    options.credit = std::max(options.credit, policy.draft + policy.children);
  }
  if (policy.name == "multi-sequence") {
    options.fixed_sequences = policy.sequences > 0;
    options.sequences = options.children = options.fixed_sequences ? policy.sequences : MultiSequence::kMaxSequences;
    options.credit = std::max(options.credit, 2 * policy.draft);
  }
  return options;
}

StaticTreePolicy::StaticTreePolicy(const PolicyOptions& options)
    : StaticTreePolicy(shape_of(options), static_cast<std::size_t>(options.draft)) {}

StaticTreePolicy::StaticTreePolicy(const StaticTree& shape, std::size_t most) : most_(most) {
  below_.resize(shape.nodes.size());
  for (std::size_t n = 1; n < shape.nodes.size(); ++n) {
    const auto& node = shape.nodes[n];
    below_[static_cast<std::size_t>(node.parent)].push_back({static_cast<std::size_t>(node.rank), n});
  }
}

std::vector<NodeId> StaticTreePolicy::choose(const TokenTree& tree, std::size_t capacity, const RunCosts& /*costs*/) {
  const std::size_t most = std::min(capacity, most_);
  std::vector<NodeId> chosen;
  std::vector<std::pair<NodeId, std::size_t>> open{{tree.root().id, 0}};  // guesses and their places in the shape
  for (std::size_t i = 0; i < open.size(); ++i) {
    const auto [node, place] = open[i];
    if (below_[place].empty()) continue;
    const std::vector<NodeId> ranked = drafted_order(tree, node);
    for (const Child& child : below_[place]) {
      if (child.rank >= ranked.size()) continue;
      const NodeId id = ranked[child.rank];
      if (!tree.at(id).sent && chosen.size() >= most) continue;
      if (!tree.at(id).sent) chosen.push_back(id);
      open.emplace_back(id, child.node);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<NodeId> DynamicTreePolicy::choose(const TokenTree& tree, std::size_t capacity, const RunCosts& /*costs*/) {
  const auto later = [](const TreeNode* a, const TreeNode* b) { return goes_before(*b, *a); };
  std::vector<const TreeNode*> open;  // a heap
  open.reserve(tree.guesses());
  const auto expand = [&](const TreeNode& node) {
    std::span<const NodeId> children(node.children);
    std::vector<NodeId> ranked;
    if (const auto most = static_cast<std::size_t>(options_.children); children.size() > most) {
      ranked = ranked_children(tree, node.id);
      children = std::span(ranked).first(most);
    }
    for (const NodeId id : children) {
      open.push_back(&tree.at(id));
      std::push_heap(open.begin(), open.end(), later);
    }
  };
  expand(tree.root());
  std::vector<NodeId> chosen;
  chosen.reserve(static_cast<std::size_t>(options_.draft));
  const std::int32_t deepest = tree.root().position + options_.depth;
  for (int taken = 0; taken < options_.draft && !open.empty(); ++taken) {
    std::pop_heap(open.begin(), open.end(), later);
    const TreeNode& node = *open.back();
    open.pop_back();
    if (!node.sent && chosen.size() >= capacity) break;
    if (!node.sent) chosen.push_back(node.id);
    if (node.position < deepest) expand(node);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::size_t MultiSequence::budget(double drafted, std::size_t most) {
  constexpr std::array<std::size_t, 12> kRich{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
  const double limit = drafted > 0 ? std::min(drafted, static_cast<double>(most)) : static_cast<double>(most);
  std::size_t best = 1;
  for (const std::size_t n : kRich) best = static_cast<double>(n) <= limit ? n : best;
  return best;
}

std::size_t MultiSequence::sequence_count(const TokenTree& tree, const std::vector<NodeId>& firsts, std::size_t budget, int fixed) {
  if (fixed > 0) return std::min({static_cast<std::size_t>(fixed), firsts.size(), budget});
  const std::vector<NodeId> seconds = drafted_order(tree, firsts[0]);
  const float best = own_probability(tree.at(firsts[0])) * (seconds.empty() ? 1 : own_probability(tree.at(seconds[0])));
  std::size_t count = 1;
  const std::size_t most = std::min<std::size_t>(kMaxSequences, firsts.size());
  while (count < most && own_probability(tree.at(firsts[count])) > best) ++count;
  while (budget % count != 0) --count;
  return count;
}

void MultiSequence::plan_step(double drafted) {
  budget_ = options_.budget > 0 ? static_cast<std::size_t>(options_.budget) : budget(drafted, static_cast<std::size_t>(options_.draft));
}

std::size_t MultiSequence::sequences(const TokenTree& tree, NodeId tip) const {
  const std::vector<NodeId> firsts = drafted_order(tree, tip);
  return firsts.empty() ? 0 : sequence_count(tree, firsts, budget_, options_.sequences);
}

std::vector<NodeId> MultiSequence::choose(const TokenTree& tree, std::size_t capacity, const RunCosts& /*costs*/) {
  const std::vector<NodeId> firsts = drafted_order(tree, tree.root().id);
  if (firsts.empty()) return {};
  const std::size_t count = sequence_count(tree, firsts, budget_, options_.sequences);
  // A single one was chosen by the last result, and may have been drafted with a larger budget.
  const std::size_t longest = firsts.size() == 1 ? static_cast<std::size_t>(options_.draft) : budget_ / count;
  std::vector<NodeId> chosen;
  for (std::size_t s = 0; s < count; ++s) {
    NodeId id = firsts[s];
    for (std::size_t length = 0; length < longest; ++length) {
      if (!tree.at(id).sent && chosen.size() >= capacity) break;
      if (!tree.at(id).sent) chosen.push_back(id);
      const std::vector<NodeId> next = drafted_order(tree, id);
      if (next.empty()) break;
      id = next[0];
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace yamata
