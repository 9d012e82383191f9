#pragma once
// Pipelined KV multibuffering (PipeInfer, section "KV cache"): where in the cache each node of a token tree lies.
// Sequence 0 is canonical: the committed text. Every further sequence is a partition that holds one whole path of the tree.
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
  /// `sequences` in the cache, the canonical one included.
  explicit Partitions(std::int32_t sequences);

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

  std::vector<std::int32_t> free_;    // partitions nobody lies in, lowest last
  std::vector<std::int32_t> equals_;  // sequence -> positions below this are the canonical cells
  std::vector<std::int32_t> users_;   // sequence -> living sent nodes that lie in it
  std::vector<CacheOperation> operations_, after_run_;
  std::size_t speculative_cells_ = 0;
};

}  // namespace yamata
