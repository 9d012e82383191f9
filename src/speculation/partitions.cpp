#include "src/speculation/partitions.hpp"

#include <algorithm>
#include <map>

namespace yamata {

Partitions::Partitions(SequenceRange sequences) : sequences_(sequences), equals_(index(sequences.end), 0), users_(index(sequences.end), 0) {
  for (std::int32_t s = sequences.end - 1; is_partition(s); --s) free_.push_back(s);
}

/// Finds the node its sequence: its parent's where nobody continues that yet, else a free partition that becomes a copy.
bool Partitions::settle(TokenTree& tree, TreeNode& node, bool parent_in_run) {
  if (node.id == tree.root().id) {
    node.sequence = sequences_.begin;
    return true;
  }
  TreeNode& parent = tree.at(node.parent);
  if (is_partition(parent.sequence) && !parent.continued) {
    parent.continued = true;
    node.sequence = parent.sequence;
  } else {
    if (free_.empty()) return false;
    node.sequence = free_.back();
    free_.pop_back();
    const std::int32_t known = equals_[index(node.sequence)];
    // Cells of the same run are there only after it; within the run the row sees them through its parent.
    auto& when = parent_in_run ? after_run_ : operations_;
    when.push_back(CacheOperation::copy(parent.sequence, {node.sequence, node.sequence + 1}, {known, node.position}));
  }
  ++users_[index(node.sequence)];
  ++speculative_cells_;
  return true;
}

TreeRun Partitions::lay_out(TokenTree& tree, std::span<const NodeId> nodes) {
  TreeRun run;
  for (const NodeId id : nodes) {
    TreeNode& node = tree.at(id);
    const auto parent = std::find(run.nodes.begin(), run.nodes.end(), node.parent);
    const bool in_run = node.parent != kNoNode && parent != run.nodes.end();
    const bool placed_before = id == tree.root().id || (tree.alive(node.parent) && tree.at(node.parent).sent);
    if (node.sent || (!in_run && !placed_before)) continue;
    if (!settle(tree, node, in_run)) continue;
    const auto index = in_run ? static_cast<std::int32_t>(parent - run.nodes.begin()) : -1;
    run.nodes.push_back(id);
    run.tokens.push_back(node.token);
    run.placements.push_back({node.position, index, {node.sequence, node.sequence + 1}});
    node.sent = true;
  }
  return run;
}

void Partitions::commit(const TokenTree& tree, const std::vector<TreeNode>& gone) {
  const TreeNode& root = tree.root();
  if (root.sent && is_partition(root.sequence)) {
    --speculative_cells_, ++accepted_cells_;  // the cell is the text's from now on, though the root still lies in its partition
    operations_.push_back(CacheOperation::copy(root.sequence, text(), {root.position, root.position + 1}));
  }
  release(gone, root.position, root.position);
}

void Partitions::release(const std::vector<TreeNode>& gone, std::int32_t text_end, std::int32_t root) {
  std::map<std::int32_t, std::int32_t> rejected;  // by sequence: from which position on
  for (const TreeNode& node : gone) {
    if (!node.sent || !is_partition(node.sequence)) continue;
    const std::size_t s = index(node.sequence);
    if (node.position >= text_end) --speculative_cells_;
    const auto first = rejected.try_emplace(node.sequence, kUnbounded).first;
    if (node.position >= root) first->second = std::min(first->second, node.position);
    if (--users_[s] > 0) continue;
    rejected.erase(first);
    // Everything before is the text, in every partition that was alive until now.
    equals_[s] = text_end;
    operations_.push_back(CacheOperation::remove({node.sequence, node.sequence + 1}, {text_end, kUnbounded}));
    free_.push_back(node.sequence);
  }
  for (const auto& [sequence, position] : rejected) {
    if (position < kUnbounded) operations_.push_back(CacheOperation::remove({sequence, sequence + 1}, {position, kUnbounded}));
  }
}

std::vector<CacheOperation> Partitions::take_operations() {
  std::vector<CacheOperation> due = std::move(operations_);
  operations_ = std::move(after_run_);
  after_run_.clear();
  return due;
}

}  // namespace yamata
