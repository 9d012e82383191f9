#pragma once
// Attention on a team of threads.
#include <span>
#include <vector>

#include "node/cpu/attention_plan.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/piece_queues.hpp"
#include "node/cpu/thread_pool.hpp"

namespace yamata {

class Attention {
 public:
  Attention(const cpu::KernelTable& kernels, int threads)
      : kernels_(kernels), threads_(threads), scratch_(static_cast<std::size_t>(threads)) {}

  /// Plans the attention operations of a run; later runs of the same size allocate no memory.
  void prepare(std::span<const Op> ops);
  /// Computes a prepared operation; called by all threads of the pool, with full queues.
  void run(const AttentionOp& op, int thread, ThreadPool& pool, PieceQueues& pieces);
  /// The same for single segments, and for their merging.
  void run(const AttentionPartOp& op, int thread);
  void run(const MergeAttentionOp& op, int thread) const;

 private:
  using Item = AttentionPlan::Item;
  /// Results of an item's queries, before the last division.
  struct Sums {
    float* out;  ///< [row of the item], with this stride: [heads][head_dim]
    std::int64_t row_stride;
    float *peak, *total;  ///< [row of the item], with this stride: [heads]
    std::int64_t state_stride;

    /// Returns `row` with its results stored as row i of these.
    cpu::AttentionRow place(cpu::AttentionRow row, std::int64_t i) const {
      row.out = out + i * row_stride, row.peak = peak + i * state_stride, row.total = total + i * state_stride;
      return row;
    }
  };
  /// A thread's own partial results, before they are merged.
  struct Scratch {
    std::vector<float> chunk, segment, sums;
  };
  class Pieces;

  const AttentionPlan& plan_of(const AttentionOp& op) const;
  static Sums sums_in(float* floats, const Item& item, std::int64_t queries, std::int64_t head_dim);
  Sums kept(const AttentionOp& op, const Item& item, std::int64_t segment);
  void run_segment(const AttentionOp& op, const Item& item, std::int64_t segment, const Sums& into, Scratch& scratch) const;
  void run_chunk(const AttentionOp& op, const Item& item, std::int64_t chunk, const Sums& into, Scratch& scratch) const;
  void run_whole(const AttentionOp& op, const Item& item, Scratch& scratch) const;
  void finish(const AttentionOp& op, const cpu::AttentionRow& row, std::int64_t first, std::int64_t heads, float* out) const;
  void merge_split(const AttentionOp& op, const AttentionPlan& plan, int thread);
  void merge_query(const AttentionOp& op, const Item& item, std::int64_t query);

  const cpu::KernelTable& kernels_;
  int threads_;
  std::vector<AttentionPlan> plans_;  // the first plan_count_ are in use
  std::size_t plan_count_ = 0;
  std::vector<std::int32_t> rows_;  // 0, 1, 2, ...
  std::vector<float> kept_;         // results of the segments of split items
  std::vector<Scratch> scratch_;    // [threads]
};

}  // namespace yamata
