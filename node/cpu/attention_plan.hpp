#pragma once
// Division of attention among threads.
#include <cstdint>
#include <span>
#include <vector>

#include "node/cpu/kernels/kernels.hpp"
#include "node/op.hpp"

namespace yamata {

/// An item is some rows and some heads of one key/value head, which share one pass over its cells. Each segment of its cells is computed at
/// once, and its results are merged into those of the earlier segments. If there are few items, threads take single segments, whose results
/// are kept until all are done; else they take whole items. What a thread takes is a piece. The result of a row does not depend on the
/// plan.
class AttentionPlan {
 public:
  static constexpr std::int64_t kMaxRows = 16;  ///< of an item: further ones would gain little from its pass over the cells
  static constexpr std::int64_t kSegmentChunks =
      2;  ///< of one token with 8 heads, results of single chunks would take a sixteenth of the F16 cells' bytes
  static constexpr std::int64_t kSegment = kSegmentChunks * cpu::kAttentionChunk;  ///< cells
  static_assert(kSegment == kAttentionSegment);
  static constexpr std::int64_t kMaxKeptFloats = 4 << 20;  ///< partial results beyond 16 MiB cost more than idle threads

  struct Item {
    std::span<const std::int32_t> rows;
    std::int64_t kv_head, head_begin, head_end;  ///< heads: within the group of kv_head
    std::int64_t segments;                       ///< of the row that sees the most
    std::int64_t first_piece = 0;
    std::int64_t kept = 0;  ///< offset of its partial results, in floats, if items are split

    std::int64_t heads() const { return head_end - head_begin; }
    std::int64_t queries() const { return std::ssize(rows) * heads(); }
  };

  /// The computed query heads among those that share this key/value head: [begin, end); may be empty.
  struct Heads {
    std::int64_t begin, end;
  };
  static Heads group_heads(const AttentionOp& op, std::int64_t kv_head);

  /// Plans for operations like `op`. Reuses its memory.
  void make(const AttentionOp& op, int threads);
  /// Whether `op` has the planned shape and visible cells.
  bool fits(const AttentionOp& op) const;

  std::span<const Item> items() const { return items_; }
  const Item& item_of(std::int64_t piece) const;
  /// A thread owns the pieces from begin(thread) to begin(thread + 1); all have about the same amount of work.
  std::int64_t begin(int thread) const { return begins_[static_cast<std::size_t>(thread)]; }
  /// Pieces are single segments: their results are merged after a barrier.
  bool split() const { return kept_floats_ > 0; }
  /// Floats for the results of all segments.
  std::int64_t kept_floats() const { return kept_floats_; }
  /// Queries of the largest item.
  std::int64_t most_queries() const { return most_queries_; }
  /// Segments of the longest item.
  std::int64_t most_segments() const { return most_segments_; }

 private:
  void order_rows(const AttentionOp& op);
  void cut(const AttentionOp& op, int threads);
  void number_pieces(const AttentionOp& op, int threads);
  void share_out(const AttentionOp& op, int threads);

  std::span<const std::int32_t> const* visible_ = nullptr;
  std::int64_t rows_ = 0, q_heads_ = 0, kv_heads_ = 0, head_dim_ = 0, before_ = 0;
  OpRange heads_;
  bool may_split_ = false;
  std::int64_t kept_floats_ = 0, most_queries_ = 0, most_segments_ = 1;
  std::vector<std::int32_t> order_;  // rows; those that see like cells are neighbours
  std::vector<Item> items_;
  std::vector<std::int64_t> begins_;  // [threads + 1]
};

}  // namespace yamata
