#pragma once
// Pipelined KV multibuffering (PipeInfer, section "KV cache"): where in the cache each node of a token tree lies.
// Of a text's sequences the first is canonical: the committed text. Each further one is a partition that holds one whole path of the tree.
#include <cstdint>
#include <span>
#include <vector>

#include "cache/cache_operation.hpp"
#include "src/speculation/token_tree.hpp"

namespace yamata {

/// A run of tree nodes as the stages take it.
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

  /// To be called first where the sequences may hold something of another text: the next operations begin by emptying them.
  void empty_all() { operations_.push_back(CacheOperation::remove(sequences_, {})); }
  /// Lays out a run of unsent nodes, parents before children, each below a sent node or one of the same run, or the root itself.
  /// Nodes that find no free partition are left out, and what is below them. The nodes laid out are marked as sent.
  TreeRun lay_out(TokenTree& tree, std::span<const NodeId> nodes);
  /// After tree.advance: takes the new root into the canonical sequence if it has been sent ("buffer swap") and releases `gone`.
  void commit(const TokenTree& tree, const std::vector<TreeNode>& gone);
  /// Gives back the partitions that only nodes in `gone` lay in; what is left of the tree has its root as before.
  void release(const TokenTree& tree, const std::vector<TreeNode>& gone);
  /// The cache operations due before the next run, in order; each is given once.
  std::vector<CacheOperation> take_operations();
  /// Cells held by sent nodes that are not committed.
  std::size_t speculative_cells() const { return speculative_cells_; }
  std::size_t free_partitions() const { return free_.size(); }

 private:
  bool settle(TokenTree& tree, TreeNode& node, bool parent_in_run);
  bool is_partition(std::int32_t sequence) const { return sequence > sequences_.begin; }
  std::size_t index(std::int32_t sequence) const { return static_cast<std::size_t>(sequence - sequences_.begin); }

  SequenceRange sequences_;
  std::vector<std::int32_t> free_;    // partitions nobody lies in, lowest last
  std::vector<std::int32_t> equals_;  // by index of a sequence: positions below this are the canonical cells
  std::vector<std::int32_t> users_;   // by index of a sequence: living sent nodes that lie in it
  std::vector<CacheOperation> operations_, after_run_;
  std::size_t speculative_cells_ = 0;
};

}  // namespace yamata
