#include "src/speculation/tree_builder.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

namespace yamata {
namespace {

using Node = StaticTree::Node;

double accuracy(const LevelAccuracies& accuracies, std::int32_t level, std::int32_t rank) {
  const auto l = static_cast<std::size_t>(level), k = static_cast<std::size_t>(rank);
  return l < accuracies.size() && k < accuracies[l].size() ? accuracies[l][k] : 0;
}

/// Of every node, the product along its path.
std::vector<double> path_accuracies(const StaticTree& tree, const LevelAccuracies& accuracies) {
  std::vector<double> paths{1};
  for (std::size_t i = 1; i < tree.nodes.size(); ++i) {
    const Node& node = tree.nodes[i];
    paths.push_back(paths[static_cast<std::size_t>(node.parent)] * accuracy(accuracies, node.level, node.rank));
  }
  return paths;
}

struct Candidate {
  Node node;
  double worth;
};

/// Sets of `size` candidates by the sum of their worth, the greatest first. The candidates are in falling order.
class BestSets {
 public:
  BestSets(const std::vector<Candidate>& candidates, std::size_t size) : candidates_(candidates) {
    std::vector<std::size_t> first(size);
    std::iota(first.begin(), first.end(), 0);
    add(std::move(first));
  }
  bool empty() const { return open_.empty(); }
  std::vector<std::size_t> next() {
    const std::vector<std::size_t> set = open_.top().second;
    open_.pop();
    for (std::size_t i = 0; i < set.size(); ++i) {
      const std::size_t limit = i + 1 < set.size() ? set[i + 1] : candidates_.size();
      if (set[i] + 1 >= limit) continue;
      std::vector<std::size_t> other = set;
      ++other[i];
      add(std::move(other));
    }
    return set;
  }

 private:
  using Entry = std::pair<double, std::vector<std::size_t>>;
  struct Later {  // of equal sums the set that comes first in order
    bool operator()(const Entry& a, const Entry& b) const { return a.first != b.first ? a.first < b.first : a.second > b.second; }
  };
  void add(std::vector<std::size_t> set) {
    if (!seen_.insert(set).second) return;
    double sum = 0;
    for (const std::size_t i : set) sum += candidates_[i].worth;
    open_.push({sum, std::move(set)});
  }

  const std::vector<Candidate>& candidates_;
  std::priority_queue<Entry, std::vector<Entry>, Later> open_;
  std::set<std::vector<std::size_t>> seen_;
};

StaticTree with_leaves(const StaticTree& inner, const std::vector<Node>& leaves) {
  StaticTree tree = inner;
  tree.nodes.insert(tree.nodes.end(), leaves.begin(), leaves.end());
  return tree;
}

struct Parts {
  StaticTree inner;          ///< nodes with children, and the root
  std::vector<Node> leaves;  ///< their parents by their numbers there
};

/// The numbers of inner nodes change, their order does not.
Parts apart(const StaticTree& tree) {
  std::vector<bool> has_children(tree.nodes.size(), false);
  has_children[0] = true;
  for (std::size_t i = 1; i < tree.nodes.size(); ++i) has_children[static_cast<std::size_t>(tree.nodes[i].parent)] = true;
  Parts parts{.inner = {.nodes = {}}, .leaves = {}};
  std::vector<std::int32_t> number(tree.nodes.size(), -1);
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    Node node = tree.nodes[i];
    if (node.parent >= 0) node.parent = number[static_cast<std::size_t>(node.parent)];
    number[i] = static_cast<std::int32_t>(parts.inner.nodes.size());
    (has_children[i] ? parts.inner.nodes : parts.leaves).push_back(node);
  }
  return parts;
}

/// What may be a leaf of that level, the best estimate first.
std::vector<Candidate> leaf_candidates(const StaticTree& inner, const LevelAccuracies& accuracies, std::int32_t level) {
  const std::vector<double> paths = path_accuracies(inner, accuracies);
  std::vector<Candidate> candidates;
  for (std::size_t p = 0; p < inner.nodes.size(); ++p) {
    if (inner.nodes[p].level + 1 != level) continue;
    const auto parent = static_cast<std::int32_t>(p);
    for (std::int32_t rank = 0; rank < std::ssize(accuracies[static_cast<std::size_t>(level)]); ++rank)
      if (inner.child(parent, rank) < 0) candidates.push_back({{parent, level, rank}, paths[p] * accuracy(accuracies, level, rank)});
  }
  std::ranges::stable_sort(candidates, std::greater{}, &Candidate::worth);
  return candidates;
}

}  // namespace

int StaticTree::child(int parent, std::int32_t rank) const {
  const auto found = std::ranges::find_if(nodes, [&](const Node& node) { return node.parent == parent && node.rank == rank; });
  return found == nodes.end() ? -1 : static_cast<int>(found - nodes.begin());
}

StaticTree inner_tree(const StaticTree& tree) { return apart(tree).inner; }

int StaticTree::accepted(const TrueRanks& ranks) const {
  int count = 0;
  for (int at = 0; count < std::ssize(ranks); ++count) {
    at = child(at, ranks[static_cast<std::size_t>(count)]);
    if (at < 0) break;
  }
  return count;
}

double expected_tokens(const StaticTree& tree, const LevelAccuracies& accuracies) {
  const std::vector<double> paths = path_accuracies(tree, accuracies);
  return std::accumulate(paths.begin(), paths.end(), 0.0);
}

StaticTree greedy_tree(const LevelAccuracies& accuracies, int width) {
  StaticTree tree;
  std::vector<double> paths{1};
  std::vector<Candidate> reach;
  const auto offer = [&](std::int32_t parent, std::int32_t level, std::int32_t rank) {
    reach.push_back({{parent, level, rank}, paths[static_cast<std::size_t>(parent)] * accuracy(accuracies, level, rank)});
  };
  offer(0, 0, 0);
  while (tree.width() < width) {
    const auto best = std::ranges::max_element(reach, {}, &Candidate::worth);
    if (best->worth <= 0) break;
    const Candidate taken = *best;
    reach.erase(best);
    tree.nodes.push_back(taken.node);
    paths.push_back(taken.worth);
    offer(taken.node.parent, taken.node.level, taken.node.rank + 1);
    offer(tree.width() - 1, taken.node.level + 1, 0);
  }
  return tree;
}

double replay(const StaticTree& tree, std::span<const RankedText> texts) {
  std::size_t tokens = 0, runs = 0;
  for (const RankedText& text : texts) {
    for (std::size_t at = 0; at < text.size(); ++runs) {
      const auto step = static_cast<std::size_t>(1 + tree.accepted(text[at]));
      at += step;
      tokens += step;
    }
  }
  return runs == 0 ? 1 : static_cast<double>(tokens) / static_cast<double>(runs);
}

StaticTree refine_tree(StaticTree tree, const LevelAccuracies& accuracies, std::span<const RankedText> texts, int most_sets) {
  auto [inner, leaves] = apart(tree);
  double best = replay(with_leaves(inner, leaves), texts);
  for (std::int32_t level = 0; level < std::ssize(accuracies); ++level) {
    std::vector<Node> others;
    std::ranges::copy_if(leaves, std::back_inserter(others), [&](const Node& node) { return node.level != level; });
    const std::vector<Candidate> candidates = leaf_candidates(inner, accuracies, level);
    if (others.size() == leaves.size()) continue;
    BestSets sets(candidates, leaves.size() - others.size());
    for (int tried = 0; tried < most_sets && !sets.empty(); ++tried) {
      std::vector<Node> trial = others;
      for (const std::size_t i : sets.next()) trial.push_back(candidates[i].node);
      const double tokens = replay(with_leaves(inner, trial), texts);
      if (tokens > best) best = tokens, leaves = std::move(trial);
    }
  }
  return with_leaves(inner, leaves);
}

int best_width(std::span<const WidthChoice> choices) {
  return std::ranges::max_element(choices, {}, [](const WidthChoice& c) { return c.tokens / c.seconds; })->width;
}

}  // namespace yamata
