#pragma once
// The choice of cells in sparse attention, on a team of threads.
#include <cstdint>
#include <span>
#include <vector>

#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/thread_pool.hpp"
#include "node/cpu/thread_share.hpp"
#include "node/op.hpp"

namespace yamata {

class PickCells {
 public:
  static constexpr std::int64_t kMostScores = 1 << 20;  ///< of the rows that are scored together, unless one row has more

  PickCells(const cpu::KernelTable& kernels, int threads)
      : kernels_(kernels), threads_(threads), keys_(static_cast<std::size_t>(threads)) {}

  /// Reserves memory for the operations of a run.
  void prepare(std::span<const Op> ops);
  /// Called by all threads of the pool.
  void run(const PickOp& op, int thread, ThreadPool& pool);

 private:
  void score(const PickOp& op, std::int64_t first, std::int64_t last, std::int64_t most, int thread);

  const cpu::KernelTable& kernels_;
  int threads_;
  std::vector<float> scores_;                     // of some rows: [rows][cells]
  std::vector<std::vector<std::uint32_t>> keys_;  // [thread]: the scores of a row in the order of numbers
};

/// Writes the cells of the blocks with the highest scores, `count` of them, in the order of the list; of equal scores the first. `cells`:
/// `block` of them for each score. `keys`: memory.
void pick_highest(std::span<const float> scores, std::span<const std::int32_t> cells, std::int64_t block, std::int64_t count,
                  std::vector<std::uint32_t>& keys, std::int32_t* out);

/// Some rows of a PoolOp.
void pool_keys(const PoolOp& op, ThreadShare rows);

}  // namespace yamata
