#pragma once
// The input of matrix products: normalized or gated, quantized, and gathered if each rank of a group has a part.
#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/slowdown.hpp"
#include "node/cpu/thread_pool.hpp"
#include "node/op.hpp"

namespace yamata {

struct SliceLayout;

/// One input at a time; the next one reuses its memory. For each row, the members of a group send each other blocks of 32 quantized values,
/// and for an RMSNorm the blocks' sums of squares: 1.125 or 1.25 bytes per value. If one of the matrices is in floating point, they send
/// floats.
class LinearInput {
 public:
  /// `pool` has this many threads, and may be constructed later. `slowdown` is notified of exchanges.
  LinearInput(const cpu::KernelTable& kernels, ThreadPool& pool, std::size_t threads, Slowdown& slowdown)
      : kernels_(kernels), pool_(pool), slowdown_(slowdown), squares_(threads) {}

  /// Allocates memory for the operations of a run. `declined`: this member computes nothing; the members of the group still do the first
  /// exchange, after which all of them stop the run. They do the same at the first exchange after `*stop` has become true.
  void prepare(std::span<const Op> ops, const std::atomic<bool>* stop, bool declined);
  /// Called by all threads of the pool; when it returns, the input is complete for all. False: the group stops the run here.
  bool make(const LinearOp& op, int thread);
  /// The same for all columns of `op.x`.
  bool gather(const AllGatherOp& op, int thread);
  /// The same for rows with all columns on this rank, with this many floats each: those of `op.x`, or those that were gathered.
  const float* whole_rows(const NormOp& op, int thread);
  /// The same for a synchronization with the other units.
  void wait(const BarrierOp& op, int thread);
  /// After an exchange: whether the group stops the run.
  bool was_stopped() const { return !goes_on_; }

  /// Rows of the input: all of them, or an expert's.
  struct Rows {
    std::int64_t begin, end;
    std::int64_t count() const { return end - begin; }
  };
  /// Those rows of the quantized input, if a matrix of `op` is quantized.
  cpu::QuantizedRows quantized(const LinearOp& op, Rows rows) const;
  /// The input in floats, if a matrix of `op` is in floating point.
  const float* floats(const LinearOp& op) const { return op.input ? op.input : op.x; }

 private:
  /// Rows with all columns: [rows][stride], and the operations that make the input from them.
  struct Source {
    const float *x, *up;
    std::int64_t stride;
    Activation activation;
  };
  void make_alone(const LinearOp& op, const Source& source, int thread);
  bool make_together(const LinearOp& op, int thread);
  /// A row's own place in the quantized input.
  struct Place {
    cpu::QuantizedRows rows;
    std::int64_t row;
  };
  Place place(const LinearOp& op, std::int64_t row) const;
  float inverse_rms(const LinearOp& op, const float* x, int thread);
  std::byte* memory(const SliceLayout& layout);
  bool wants() const;
  bool exchange(const SliceLayout& layout, std::byte* slices, int thread);
  void write_floats(const LinearOp& op, const SliceLayout& layout, std::byte* slices, int thread);
  void read_floats(const SliceLayout& layout, const std::byte* slices, std::int64_t cols, OpRange rows, float* all, int thread) const;
  void encode(const LinearOp& op, const SliceLayout& layout, std::byte* slices, int thread);
  void decode(const LinearOp& op, const SliceLayout& layout, const std::byte* slices, int thread);

  const cpu::KernelTable& kernels_;
  ThreadPool& pool_;
  Slowdown& slowdown_;
  std::vector<std::byte> quantized_, slices_;
  std::vector<float> whole_;                 // [rows][cols] before the norm, if floats are exchanged
  std::vector<std::vector<float>> squares_;  // [thread]: sums of squares of a row's blocks
  std::vector<std::size_t> ends_;            // [members]
  const std::atomic<bool>* stop_ = nullptr;
  bool declined_ = false, goes_on_ = true;
};

}  // namespace yamata
