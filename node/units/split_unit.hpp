#pragma once
// Several units of a machine as one: each computes a part of every operation (Ghidorah's HCMP).
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "node/compute_unit.hpp"
#include "node/unit_barrier.hpp"
#include "node/units/op_cutter.hpp"
#include "node/units/unit_shares.hpp"

namespace yamata {

/// One of the units.
struct UnitPart {
  std::string name;  ///< for statistics: "cpu:0-3"
  std::unique_ptr<ComputeUnit> unit;
  double share = 1;     ///< initial share of the columns
  bool device = false;  ///< can access only memory that it allocated itself, which the other units can access, too
};

/// All units work on the same memory. A list is stopped at a synchronization, by all units together.
class SplitUnit final : public ComputeUnit {
 public:
  /// At most kMaxUnits. `adapts`: the shares follow measured time. `spins`: see UnitBarrier.
  SplitUnit(std::vector<UnitPart> parts, bool adapts, int spins);
  ~SplitUnit() override;

  /// Additional bytes that this many units need, compared with one unit.
  static std::uint64_t scratch_bytes(const ScratchNeeds& needs, int units);

  void start(std::span<const Op> ops, const std::atomic<bool>* stop) override;
  bool finished() const override { return running_ == 0; }
  bool wait_for(std::chrono::microseconds limit) override;
  bool was_stopped() const override;
  void when_finished(std::function<void()> told) override;
  std::size_t packed_bytes(const Matrix& matrix) const override { return cutter_.packed_bytes(matrix); }
  std::unique_ptr<Buffer> allocate(std::size_t bytes, BufferUse use) override { return memory_.allocate(bytes, shared(use)); }
  /// Such as "cpu:0-3=0.6+cpu:4-7=0.4", with the current shares.
  std::string device() const override;
  std::uint64_t progress() const override;
  double busy_seconds() const override { return busy_seconds_; }
  std::string isa() const override;
  int threads() const override;
  void slow_down(double factor) override;

  /// From now on attention is divided by shares of its own, never like the product before it; and the time of each kind of work is
  /// measured, even with one unit (Ghidorah). For this, units synchronize more often.
  void divide_attention_apart() { cutter_.divide_attention_apart(); }
  int units() const { return static_cast<int>(units_.size()); }
  /// Of the first segments of a cache, if it is divided by segments, the device computes the attention, or else the first unit.
  void divide_attention(AttentionCut cut) { cutter_.divide_attention(cut, dense_unit_); }
  /// The shares, by kind of work. Like the next function, not to be called while it computes.
  UnitShares& shares() { return shares_; }
  /// Seconds that a unit has spent on the work with that number in the latest list.
  double computed_s(int label, int unit) const { return barrier_.computed_s(label, unit); }

 private:
  void ended(std::size_t unit);
  void settle();

  std::vector<std::string> names_;
  std::vector<std::unique_ptr<ComputeUnit>> units_;
  std::size_t dense_unit_;  // the device, if there is one
  ComputeUnit& memory_;     // the unit that allocates the common memory
  UnitShares shares_;
  UnitBarrier barrier_;
  OpCutter cutter_;
  std::size_t ops_ = 0;                // of the latest list
  std::uint64_t progress_before_ = 0;  // of all earlier lists
  std::vector<std::uint64_t> progress_at_start_;
  std::vector<double> busy_at_start_;
  bool settled_ = true;
  std::exception_ptr error_;
  double busy_seconds_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::atomic<int> running_{0};  // units that have not reported their end
  std::function<void()> told_;
};

}  // namespace yamata
