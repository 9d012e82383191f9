#pragma once
// Attention on a team of threads.
#include <span>
#include <vector>

#include "node/attention_plan.hpp"
#include "node/cpu/kernels.hpp"
#include "node/thread_pool.hpp"

namespace yamata {

class Attention {
 public:
  Attention(const cpu::KernelTable& kernels, int threads) : kernels_(kernels), threads_(threads) {}

  /// Plans the attention among the operations of a run; later runs of the same size take no new memory.
  void prepare(std::span<const Op> ops);
  /// The part of a prepared operation that is this thread's; called by all threads of the pool.
  void run(const AttentionOp& op, int thread, ThreadPool& pool);

 private:
  using Item = AttentionPlan::Item;
  /// Results of an item's queries, before the last division.
  struct Sums {
    float* out;  ///< [queries][head_dim]
    float *peak, *total;
  };
  const AttentionPlan& plan_of(const AttentionOp& op) const;
  Sums kept(const AttentionOp& op, const Item& item, std::int64_t chunk);
  /// Computes a chunk for every row of the item that reaches into it. `place(row)` says where a row's result belongs;
  /// `done(rows)` is told of rows as they are computed.
  template <class Place, class Done>
  void compute(const AttentionOp& op, const Item& item, std::int64_t chunk, Place place, Done done) const;
  void run_whole(const AttentionOp& op, const Item& item, int thread);
  void finish(const AttentionOp& op, const cpu::AttentionRow& row, std::int64_t heads) const;
  void run_chunk(const AttentionOp& op, const Item& item, std::int64_t chunk);
  void merge_split(const AttentionOp& op, const AttentionPlan& plan, int thread);
  void merge_query(const AttentionOp& op, const Item& item, std::int64_t query);

  const cpu::KernelTable& kernels_;
  int threads_;
  std::vector<AttentionPlan> plans_;  // the first plan_count_ are in use
  std::size_t plan_count_ = 0;
  std::vector<float> kept_;   // partial results of split items
  std::vector<float> block_;  // [threads]: results of one chunk that wait to be merged
  std::vector<float> state_;  // [threads]: peaks and totals of an item's queries
  std::size_t block_floats_ = 0;
};

}  // namespace yamata
