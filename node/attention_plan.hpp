#pragma once
// How attention is shared out among threads.
#include <cstdint>
#include <span>
#include <vector>

#include "node/op.hpp"

namespace yamata {

/// Work is counted in units: some rows, some heads of one key/value head, one chunk of cells. Rows and heads that share a
/// unit share one pass over its cells. Units of the same rows and heads form an item, whose chunks are merged in order;
/// the threads take consecutive units, so that an item may be split between threads. What a row's result is does not
/// depend on the plan.
class AttentionPlan {
 public:
  static constexpr std::int64_t kMostRows = 16;  ///< of an item: further ones would gain little from its pass over the cells

  static constexpr std::int64_t kMostKeptFloats = 4 << 20;  ///< partial results beyond 16 MiB cost more than idle threads

  struct Item {
    std::int64_t row_begin, row_end, kv_head, head_begin, head_end;  ///< heads: within the group of kv_head
    std::int64_t chunks;                                             ///< of the row that sees the most
    std::int64_t kept = -1;                                          ///< where its partial results lie, in floats, if it is split

    std::int64_t heads() const { return head_end - head_begin; }
    std::int64_t queries() const { return (row_end - row_begin) * heads(); }
  };
  /// Before this unit a thread's share ends, and the next one's begins.
  struct Place {
    std::size_t item = 0;
    std::int64_t chunk = 0;
  };

  /// Plans for operations like `op`. Reuses its memory.
  void make(const AttentionOp& op, int threads);
  /// Whether `op` has the shape and the visible cells planned for.
  bool fits(const AttentionOp& op) const;

  std::span<const Item> items() const { return items_; }
  Place begin(int thread) const { return places_[static_cast<std::size_t>(thread)]; }
  Place end(int thread) const { return places_[static_cast<std::size_t>(thread) + 1]; }
  /// Some items are split: their partial results are merged after a barrier.
  bool split() const { return kept_floats_ > 0; }
  /// Room for the partial results of split items.
  std::int64_t kept_floats() const { return kept_floats_; }

 private:
  void cut(const AttentionOp& op, int threads);
  void share_out(const AttentionOp& op, int threads);
  void keep_split_items(std::int64_t head_dim);

  std::span<const std::int32_t> const* visible_ = nullptr;
  std::int64_t rows_ = 0, q_heads_ = 0, kv_heads_ = 0, head_dim_ = 0;
  bool may_split_ = false;
  std::int64_t kept_floats_ = 0;
  std::vector<Item> items_;
  std::vector<Place> places_;  // [threads + 1]
};

}  // namespace yamata
