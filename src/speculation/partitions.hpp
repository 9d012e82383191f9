#pragma once
// Pipelined KV multibuffering (PipeInfer, section "KV cache"): the cache sequences of each node of a token tree. The first of a text's
// sequences is canonical: it holds the committed text. Each other one is a partition, which holds one whole path of the tree.
#include <cstdint>
#include <span>
#include <vector>

#include "cache/cache_operation.hpp"
#include "src/speculation/token_tree.hpp"

namespace yamata {

/// A run of tree nodes in the form for the stages.
struct TreeRun {
  std::vector<NodeId> nodes;
  std::vector<std::int32_t> tokens;
  std::vector<Placement> placements;
};

class Partitions {
 public:
  /// `sequences` of the cache that belong to this text, the canonical one first.
  explicit Partitions(SequenceRange sequences);
  /// The canonical sequence.
  SequenceRange text() const { return {sequences_.begin, sequences_.begin + 1}; }

  /// Call this first if the sequences may hold another text: the next operations start with emptying them.
  void empty_all() { operations_.push_back(CacheOperation::remove(sequences_, {})); }
  /// Then this, if the text begins with so many tokens of another sequence: they share the cells.
  void take_over(std::int32_t sequence, std::int32_t tokens) { operations_.push_back(CacheOperation::copy(sequence, text(), {0, tokens})); }
  /// Lays out a run of unsent nodes, parents before children, each below a sent node or one of the same run, or the root itself.
  /// Nodes without a free partition are left out, with everything below them. The other nodes are marked as sent.
  TreeRun lay_out(TokenTree& tree, std::span<const NodeId> nodes);
  /// Call after tree.advance: copies the new root into the canonical sequence if it has been sent ("buffer swap"), and releases `gone`.
  void commit(const TokenTree& tree, const std::vector<TreeNode>& gone);
  /// Frees the partitions that only nodes in `gone` used, and the cells of rejected guesses in the others. `text_end`: the canonical
  /// sequence holds the text up to this position, at most `root`, that of the tree's root; between the two there are cells of guesses that
  /// became text.
  void release(const std::vector<TreeNode>& gone, std::int32_t text_end, std::int32_t root);
  /// The cache operations to send before the next run, in order; each is returned once.
  std::vector<CacheOperation> take_operations();
  /// Cells held by sent nodes that are not committed.
  std::size_t speculative_cells() const { return speculative_cells_; }
  /// Cells of guesses that have become text so far.
  std::size_t accepted_cells() const { return accepted_cells_; }
  std::size_t free_partitions() const { return free_.size(); }

 private:
  bool settle(TokenTree& tree, TreeNode& node, bool parent_in_run);
  bool is_partition(std::int32_t sequence) const { return sequence > sequences_.begin; }
  std::size_t index(std::int32_t sequence) const { return static_cast<std::size_t>(sequence - sequences_.begin); }

  SequenceRange sequences_;
  std::vector<std::int32_t> free_;    // unused partitions, lowest last
  std::vector<std::int32_t> equals_;  // by index of a sequence: positions below this are the canonical cells
  std::vector<std::int32_t> users_;   // by index of a sequence: number of living sent nodes in it
  std::vector<CacheOperation> operations_, after_run_;
  std::size_t speculative_cells_ = 0, accepted_cells_ = 0;
};

}  // namespace yamata
