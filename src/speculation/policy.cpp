#include "src/speculation/policy.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

namespace yamata {

bool goes_before(const TreeNode& a, const TreeNode& b) {
  return std::tuple(-a.path_probability, a.position, a.id) < std::tuple(-b.path_probability, b.position, b.id);
}

std::vector<NodeId> ranked_children(const TokenTree& tree, NodeId id) {
  std::vector<NodeId> children = tree.at(id).children;
  std::sort(children.begin(), children.end(), [&](NodeId a, NodeId b) { return goes_before(tree.at(a), tree.at(b)); });
  return children;
}

std::vector<NodeId> drafted_order(const TokenTree& tree, NodeId id) {
  std::vector<NodeId> children = tree.at(id).children;
  std::ranges::stable_sort(children, std::greater(), [&](NodeId child) { return own_probability(tree.at(child)); });
  return children;
}

float own_probability(const TreeNode& node) {
  float best = 0;
  for (const DraftProbability& draft : node.draft_probabilities) best = std::max(best, draft.value);
  return best;
}

namespace {

/// [k], or the last where there are fewer; 0 where there are none.
double at(const std::vector<double>& costs, std::size_t k) { return costs.empty() ? 0 : costs[std::min(k, costs.size() - 1)]; }

/// How many of the first `most` nodes to take: the n that maximizes sum of path probabilities - occupancy[n] - p_best lateness[n].
std::size_t most_worth(const TokenTree& tree, const std::vector<NodeId>& ranked, std::size_t most, const RunCosts& costs) {
  if (most == 0 || (costs.occupancy.empty() && costs.lateness.empty())) return most;
  const double likeliest = tree.at(ranked[0]).path_probability;
  std::size_t best = 0;
  double promised = 0, best_value = 0;
  for (std::size_t k = 1; k <= most; ++k) {
    promised += tree.at(ranked[k - 1]).path_probability;
    const double value = promised - at(costs.occupancy, k) - likeliest * at(costs.lateness, k);
    if (value <= best_value) continue;
    best = k;
    best_value = value;
  }
  return best;
}

}  // namespace

std::vector<NodeId> BestFirst::choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) {
  std::vector<NodeId> candidates;
  for (const NodeId id : tree.ids()) {
    const TreeNode& node = tree.at(id);
    if (!node.sent && id != tree.root().id && node.path_probability >= options_.threshold) candidates.push_back(id);
  }
  return choose_among(tree, std::move(candidates), std::min(capacity, static_cast<std::size_t>(options_.draft)), costs);
}

std::vector<NodeId> BestFirst::choose_among(const TokenTree& tree, std::vector<NodeId> candidates, std::size_t capacity,
                                            const RunCosts& costs) const {
  const std::size_t most = std::min(capacity, candidates.size());
  const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(most);
  std::partial_sort(candidates.begin(), middle, candidates.end(), [&](NodeId a, NodeId b) { return goes_before(tree.at(a), tree.at(b)); });
  candidates.resize(most_worth(tree, candidates, most, costs));
  std::sort(candidates.begin(), candidates.end());  // parents before children
  return candidates;
}

namespace {

std::vector<NodeId> allowed_children(const TokenTree& tree, NodeId id) {
  std::vector<NodeId> children = drafted_order(tree, id);
  std::erase_if(children, [&](NodeId child) { return tree.at(child).forbidden; });
  return children;
}

}  // namespace

NodeId Chain::tip(const TokenTree& tree) {
  NodeId end = tree.root().id;
  while (true) {
    const auto children = allowed_children(tree, end);
    if (children.empty() || !tree.at(children[0]).sent) return end;
    end = children[0];
  }
}

/// Extends every branch by one token, if it is probable enough; `ends` become the ends of those that were.
void Chain::take_level(const TokenTree& tree, std::vector<NodeId>& ends, std::size_t most, std::vector<NodeId>& chosen) {
  const double accept = options_.accept + adjustment(), split = options_.split + adjustment();
  std::vector<NodeId> next;
  for (std::size_t t = 0; t < ends.size() && chosen.size() < most; ++t) {
    const std::vector<NodeId> children = allowed_children(tree, ends[t]);
    unfinished_ |= children.empty();
    int rank = 0;
    for (const NodeId id : children) {
      const bool first = rank++ == 0;
      const TreeNode& node = tree.at(id);
      const bool opens = !first && static_cast<int>(ends.size() + next.size()) <= options_.branches && options_.branches > 1;
      const bool probable = first ? own_probability(node) >= accept : opens && own_probability(node) > split;
      if (!probable || node.sent || chosen.size() >= most) break;
      chosen.push_back(id);
      next.push_back(id);
    }
  }
  ends = std::move(next);
}

std::vector<NodeId> Chain::choose(const TokenTree& tree, std::size_t capacity, const RunCosts& /*costs*/) {
  const std::size_t most = std::min(capacity, static_cast<std::size_t>(options_.draft));
  std::vector<NodeId> ends{tip(tree)}, chosen;
  unfinished_ = false;
  while (!ends.empty() && chosen.size() < most) take_level(tree, ends, most, chosen);
  unfinished_ &= chosen.size() < most;
  if (chosen.empty() && most > 0 && !unfinished_) ++rejects_;
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

/// The result of a run, with guesses or without, was accepted.
void Chain::committed(bool /*guessed*/) {
  runs_ = 0;
  rejects_ = 0;
}

}  // namespace yamata
