#pragma once
// A device as a compute unit: one host thread launches the kernels of each operation into the stream of the device.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "node/compute_unit.hpp"
#include "node/cpu/thread_pool.hpp"
#include "node/cuda/device/device.hpp"
#include "node/cuda/device/device_claim.hpp"
#include "node/cuda/ops/ops.hpp"
#include "node/list_run.hpp"

namespace yamata::cuda {

class CudaUnit final : public ComputeUnit {
 public:
  /// `claim`: keeps other processes from using the device. Several units of this process may hold it: each has a stream, scratch memory and
  /// graphs of its own.
  explicit CudaUnit(std::unique_ptr<Device> device, std::shared_ptr<DeviceClaim> claim = nullptr, LaunchOptions options = {});
  ~CudaUnit() override;

  void start(std::span<const Op> ops, const std::atomic<bool>* stop) override;
  bool finished() const override { return pool_.finished(); }
  bool wait_for(std::chrono::microseconds limit) override;
  bool was_stopped() const override { return was_stopped_; }
  void when_finished(std::function<void()> told) override { pool_.when_finished(std::move(told)); }
  std::size_t packed_bytes(const Matrix& matrix) const override { return cuda::packed_bytes(matrix); }
  std::unique_ptr<Buffer> allocate(std::size_t bytes, BufferUse use) override { return context_.memory.allocate(bytes, use); }
  std::string device() const override { return device_->id(); }
  std::uint64_t progress() const override { return progress_.load(std::memory_order_relaxed); }
  double busy_seconds() const override { return busy_.seconds(); }
  CopiedWeights copied_weights() const override { return copied_; }
  std::string isa() const override { return device_->properties().name; }
  int threads() const override { return 1; }
  void slow_down(double factor) override { slowness_ = factor; }

  /// Not while it computes, as the next.
  const GraphCounts& graph_counts() const { return context_.launcher.counts(); }
  /// Whether the stream itself waited at the barriers of the last list.
  bool stream_waited() const { return context_.launcher.stream_waits(); }

 private:
  void work();
  void compute();
  void keep_logits();
  bool run(const Op& op);
  void pause(std::chrono::steady_clock::time_point began);

  std::shared_ptr<DeviceClaim> claim_;
  std::unique_ptr<Device> device_;
  OpContext context_;
  std::span<const Op> ops_;
  const std::atomic<bool>* stop_ = nullptr;
  bool together_ = false;  // the list has barriers; it can be left only there
  bool was_stopped_ = false;
  CopiedWeights copied_;
  std::atomic<std::uint64_t> progress_{0};
  BusyTime busy_;
  double slowness_ = 1;
  ThreadPool pool_{{-1}};  // last: its thread ends before what it uses
};

}  // namespace yamata::cuda
