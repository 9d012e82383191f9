#pragma once
// Two units of a machine that have whole layers each: one computes the first layers of a model, the other the rest (llama.cpp's -ngl).
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "node/compute_unit.hpp"
#include "node/cpu/thread_pool.hpp"
#include "node/list_run.hpp"

namespace yamata {

/// The units take turns: each runs its part of a list while the other sleeps, so there is no synchronization inside a layer. A list without
/// parts is computed by the second unit.
class LayeredUnit final : public ComputeUnit {
 public:
  /// Activations are in the memory of `first`, which `rest` must be able to access, as cores can access a device's.
  LayeredUnit(std::unique_ptr<ComputeUnit> first, std::unique_ptr<ComputeUnit> rest);

  void start(std::span<const Op> ops, const std::atomic<bool>* stop) override;
  void start_parts(std::span<const Op> ops, std::span<const ListPart> parts, const std::atomic<bool>* stop) override;
  ComputeUnit& first_unit() override { return *first_; }
  ComputeUnit& rest_unit() override { return *rest_; }
  bool finished() const override { return pool_.finished(); }
  bool wait_for(std::chrono::microseconds limit) override;
  bool was_stopped() const override { return was_stopped_; }
  void when_finished(std::function<void()> told) override { pool_.when_finished(std::move(told)); }
  std::size_t packed_bytes(const Matrix& matrix) const override { return rest_->packed_bytes(matrix); }
  std::unique_ptr<Buffer> allocate(std::size_t bytes, BufferUse use) override;
  std::string device() const override { return rest_->device(); }
  std::uint64_t progress() const override { return progress_; }
  double busy_seconds() const override { return busy_.seconds(); }
  std::string isa() const override { return first_->isa() + "+" + rest_->isa(); }
  int threads() const override { return first_->threads() + rest_->threads(); }
  void slow_down(double factor) override;

 private:
  void work();
  void count_progress() { progress_ = first_->progress() + rest_->progress(); }

  std::unique_ptr<ComputeUnit> first_, rest_;
  std::span<const Op> ops_;
  std::span<const ListPart> parts_;
  ListPart whole_{};
  const std::atomic<bool>* stop_ = nullptr;
  bool was_stopped_ = false;
  std::atomic<std::uint64_t> progress_{0};  // read by other threads than the one that starts the units
  BusyTime busy_;
  ThreadPool pool_{{-1}};  // last: its thread ends before what it uses
};

}  // namespace yamata
