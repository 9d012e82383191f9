#pragma once
// A group of CPU cores as a compute unit.
#include <memory>
#include <utility>
#include <vector>

#include "node/compute_unit.hpp"
#include "node/cpu/attention.hpp"
#include "node/cpu/kernels/state_kernels.hpp"
#include "node/cpu/linear_input.hpp"
#include "node/cpu/pick_cells.hpp"
#include "node/cpu/piece_queues.hpp"
#include "node/cpu/slowdown.hpp"
#include "node/cpu/thread_pool.hpp"
#include "node/cpu/thread_share.hpp"
#include "node/list_run.hpp"

namespace yamata {

class CpuUnit final : public ComputeUnit {
 public:
  /// Threads on the given logical CPUs (see ThreadPool), with kernels of one instruction set. Memory that all threads read is interleaved
  /// over the NUMA nodes `nodes`.
  CpuUnit(const std::vector<int>& cpus, cpu::Isa isa, std::vector<int> nodes = {});

  /// Bytes that a unit with this many threads needs in addition to the buffers of its operations: quantized input, and partial results of
  /// attention over 4096 cells (for more cells, they are small compared with the cache).
  static std::uint64_t scratch_bytes(const ScratchNeeds& needs, int threads);

  void start(std::span<const Op> ops, const std::atomic<bool>* stop) override;
  bool finished() const override { return pool_.finished(); }
  bool wait_for(std::chrono::microseconds limit) override;
  bool was_stopped() const override { return was_stopped_; }
  void when_finished(std::function<void()> told) override { pool_.when_finished(std::move(told)); }
  std::size_t packed_bytes(const Matrix& matrix) const override;
  std::unique_ptr<Buffer> allocate(std::size_t bytes, BufferUse use) override;
  std::uint64_t progress() const override { return progress_.load(std::memory_order_relaxed); }
  double busy_seconds() const override { return busy_.seconds(); }
  /// Emulated hosts compute in turn if YAMATA_TURNS names a file.
  void slow_down(double factor) override;
  std::string isa() const override { return cpu::isa_name(kernels_.isa); }
  int threads() const override { return pool_.size(); }

 private:
  void work(int thread);
  void reserve_panels(std::span<const Op> ops);

  void run(const EmbedOp& op, int thread);
  void run(const LinearOp& op, int thread);
  void run(const StoreOp& op, int thread);
  void run(const AttentionOp& op, int thread);
  void run(const AttentionPartOp& op, int thread);
  void run(const MergeAttentionOp& op, int thread);
  void run(const GatherOp& op, int thread);
  void run(const AllGatherOp& op, int thread);
  void run(const ReadOp& op, int thread);
  void run(const PackOp& op, int thread);
  void run(const NormOp& op, int thread);
  void run(const ResizeOp& op, int thread);
  void run(const AddOp& op, int thread);
  void run(const RouterOp& op, int thread);
  void run(const ScaleOp& op, int thread);
  void run(const HighestOp& op, int thread);
  void run(const BarrierOp& op, int thread);
  void run(const StateInputsOp& op, int thread);
  void run(const DeltaRuleOp& op, int thread);
  void run(const ScanOp& op, int thread);
  template <class AnyRule>
  void run_rule(const AnyRule& op, int thread);
  void run(const GatedConvolutionOp& op, int thread);
  void run(const HeadGateOp& op, int thread);
  void run(const UngateOp& op, int thread);
  void run(const PickOp& op, int thread);
  void run(const PoolOp& op, int thread);
  void run(const FarConvolutionOp& op, int thread);
  void run(const LikenessOp& op, int thread);
  void multiply(const LinearOp& op, const LinearOp::Part& part, ThreadShare outputs, std::int64_t expert, std::byte* panel);

  const cpu::KernelTable& kernels_;
  const std::vector<int> nodes_;
  std::vector<std::byte> panels_;  // [thread]: rows of an unpacked matrix that are packed for a product
  std::size_t thread_panel_bytes_ = 0;
  /// What a thread needs for the gated delta rule.
  struct RuleMemory {
    std::vector<cpu::DeltaRow> rows;
    std::vector<float> states;
  };
  std::vector<RuleMemory> rules_;  // [thread]
  Attention attention_;
  PickCells picks_;
  PieceQueues pieces_;
  std::span<const Op> ops_;
  const std::atomic<bool>* stop_ = nullptr;
  bool in_group_ = false;     // the list has exchanges; then it is only left at one of these
  bool declined_ = false;     // it is left at the first exchange
  bool stopped_[2] = {};      // written by thread 0 before a barrier, read by all after it
  bool was_stopped_ = false;  // the latest list was left before its end
  std::atomic<std::uint64_t> progress_{0};
  BusyTime busy_;
  Slowdown slowdown_;
  LinearInput input_;
  ThreadPool pool_;  // last: its threads end before what they use
};

}  // namespace yamata
