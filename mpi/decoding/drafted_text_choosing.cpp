// What a drafter evaluates next.
#include <algorithm>
#include <functional>

#include "mpi/decoding/drafted_text.hpp"

namespace yamata {

/// The head waits for a dynamic tree of a given size.
bool DraftedText::fills_tree() const { return min_drafts_ > 0 && options().depth > 0; }

/// chain: whether the node is probable enough to be expanded. While the head waits, the cut-off ends the draft; else the head applies it,
/// when it knows how many runs there are.
bool DraftedText::passes_cut_off(const TreeNode& node) const {
  return options().branches == 0 || min_drafts_ == 0 || node.draft_probabilities[0].value >= options().accept;
}

/// DuoDecoding's sequences. Heads that guess by depth have their guesses in a single evaluation.
bool DraftedText::drafts_sequences() const { return options().sequences > 0 && depths_ == 0; }

/// The end of the guesses that the target verifies now: down the best ones, below which sequences begin.
NodeId DraftedText::find_tip() {
  NodeId tip = runs_.tree().root().id;
  for (auto next = drafted_order(runs_.tree(), tip); !next.empty(); next = drafted_order(runs_.tree(), tip)) tip = next.front();
  return tip;
}

/// The nodes that sequences continue after, the shortest sequence first. An end that is being evaluated is left out.
std::vector<NodeId> DraftedText::sequence_ends() {
  const TokenTree& tree = runs_.tree();
  if (expansions_left() == 0) return {};
  if (!tree.at(tip_).sent) return {tip_};
  const auto budget = static_cast<std::size_t>(std::max(min_drafts_, 1));
  const std::vector<NodeId> firsts = drafted_order(tree, tip_);
  if (firsts.empty() || budget == 1) return {};
  const bool fixed = options().fixed_sequences;
  if (!fixed && !tree.at(firsts[0]).sent) return {firsts[0]};
  if (!fixed && tree.at(firsts[0]).children.empty()) return {};  // the number of sequences depends on the token after it
  const std::size_t count = MultiSequence::sequence_count(tree, firsts, budget, fixed ? options().sequences : 0);
  const auto last = tree.at(tip_).position + static_cast<std::int32_t>(budget / count);
  std::vector<NodeId> ends;
  for (std::size_t s = 0; s < count; ++s) {
    NodeId id = firsts[s];
    while (tree.at(id).sent && !tree.at(id).children.empty()) id = drafted_order(tree, id).front();
    if (!tree.at(id).sent && tree.at(id).position < last) ends.push_back(id);
  }
  std::ranges::stable_sort(ends, {}, [&](NodeId id) { return tree.at(id).position; });
  ends.resize(std::min({ends.size(), static_cast<std::size_t>(options().width), expansions_left()}));
  return ends;
}

/// Whether no more nodes may be expanded. In a tree that the head waits for, only the number of cells limits that.
bool DraftedText::may_expand_no_more() {
  const TokenTree& tree = runs_.tree();
  if (!fills_tree()) return tree.guesses() >= static_cast<std::size_t>(options().credit);
  return depths_ == 0 && expansions_left() == 0;
}

/// Number of nodes that may still be expanded, if each needs a cell.
std::size_t DraftedText::expansions_left() {
  const std::vector<NodeId> ids = runs_.tree().ids();
  const auto expanded = std::ranges::count_if(ids, [&](NodeId id) { return id != runs_.tree().root().id && runs_.tree().at(id).sent; });
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(options().credit - expanded, 0));
}

std::int32_t DraftedText::depth_of(const TreeNode& node) const { return node.position - runs_.tree().root().position; }

/// Whether its children are known without an evaluation.
bool DraftedText::is_known(const TreeNode& node) const { return static_cast<std::size_t>(depth_of(node)) < levels_.size(); }

/// Whether guesses after it are useful and possible.
bool DraftedText::is_followed(const TreeNode& node) const {
  const std::int32_t depth = depth_of(node);
  return (options().depth == 0 || depth < options().depth) && (depths_ == 0 || depth < depths_);
}

/// A node's children may be among the guesses that the head waits for only if its path probability is above this; negative: always.
float DraftedText::least_worth() {
  const auto wanted = static_cast<std::size_t>(min_drafts_);
  if (wanted == 0 || runs_.tree().guesses() < wanted) return -1;
  std::vector<float> probabilities;
  for (const NodeId id : runs_.tree().ids()) {
    if (id != runs_.tree().root().id) probabilities.push_back(runs_.tree().at(id).path_probability);
  }
  const auto last = probabilities.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
  std::nth_element(probabilities.begin(), last, probabilities.end(), std::greater());
  return *last;
}

/// Nodes that are worth expanding; `known`: those that need no evaluation for that, else those that do.
std::vector<NodeId> DraftedText::candidates(bool known) {
  const float least = least_worth();
  std::vector<NodeId> nodes;
  for (const NodeId id : runs_.tree().ids()) {
    const TreeNode& node = runs_.tree().at(id);
    const bool open = !node.sent && id != runs_.tree().root().id && is_followed(node) && is_known(node) == known && passes_cut_off(node);
    if (open && (fills_tree() || node.path_probability >= options().threshold) && node.path_probability > least) nodes.push_back(id);
  }
  return nodes;
}

/// The next node to expand without an evaluation: one that is missing in the shape, or the most probable one; kNoNode: none is worth it.
NodeId DraftedText::next_known() {
  for (const NodeId id : open_places()) {
    if (is_known(runs_.tree().at(id))) return id;
  }
  const bool shaped = min_drafts_ > 0 && options().shape.width() > 1;  // the head only waits for the shape
  if (shaped || may_expand_no_more()) return kNoNode;
  const std::vector<NodeId> best = search_.choose_among(runs_.tree(), candidates(true), 1, {});
  return best.empty() ? kNoNode : best.front();
}

/// Another node is worth its time while its probability is higher than the share of a step that it needs. If a fixed number of guesses is
/// needed at any cost, time is not considered, so that the guesses are the same on every machine.
RunCosts DraftedText::run_costs(int others) const {
  if (min_drafts_ > 0 && least_ == 0) return {};
  return {.occupancy = pipeline().stage().cost().marginal(others, depths_ > 0 ? 1 : options().width), .lateness = {}};
}

/// Nodes of the shape whose children are missing.
std::vector<NodeId> DraftedText::open_places() { return shape_.choose(runs_.tree(), static_cast<std::size_t>(options().width), {}); }

/// Whether the draft is complete. With a fixed shape: the shape is filled. Otherwise: there are as many guesses as the head waits for, and
/// they are at least as probable as any node that is not expanded yet or in flight, and thus as any of its children.
bool DraftedText::draft_is_complete() {
  if (min_drafts_ == 0 || drafts_sequences()) return false;  // sequences are, when nothing is left to do
  if (options().shape.width() > 1) return runs_.in_flight() == 0 && runs_.tree().root().sent && open_places().empty();
  float open = 0;
  for (const TreeRuns::Run& run : runs_.runs()) {  // the children of these nodes are not known yet
    for (const NodeId id : run.nodes) open = std::max(open, runs_.tree().alive(id) ? runs_.tree().at(id).path_probability : 0);
  }
  for (const NodeId id : runs_.tree().ids()) {
    const TreeNode& node = runs_.tree().at(id);
    if (!node.sent && is_followed(node)) open = std::max(open, node.path_probability);
  }
  return least_worth() >= open;
}

/// The nodes to evaluate next: those missing in the shape, then the most probable ones, if the best is worth an evaluation. For heads that
/// guess by depth, one node stands for all of the same depth.
std::vector<NodeId> DraftedText::choose(std::size_t most, int others) {
  std::vector<NodeId> nodes = drafts_sequences() ? sequence_ends() : open_places();
  if (nodes.empty() && !drafts_sequences()) {
    if (draft_is_complete() || may_expand_no_more()) return {};
    const std::size_t room = fills_tree() && depths_ == 0 ? std::min(most, expansions_left()) : most;
    nodes = search_.choose_among(runs_.tree(), candidates(false), room, run_costs(others));
    const bool any = std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) { return runs_.tree().at(id).path_probability >= least_; });
    if (!any) return {};
  }
  std::erase_if(nodes, [&](NodeId id) { return runs_.tree().at(id).position + 1 >= drafting_.context; });
  nodes.resize(std::min(nodes.size(), most));
  if (depths_ > 0 && !nodes.empty()) return {ranked_children(runs_.tree(), deepest_).front()};
  return nodes;
}

}  // namespace yamata
