#pragma once
// What all compute units need when they run a list of operations.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>
#include <variant>

#include "node/op.hpp"

namespace yamata {

/// Whether the members of a group, or the units of a machine, synchronize in the operation.
inline bool synchronizes(const Op& op) {
  const auto* linear = std::get_if<LinearOp>(&op);
  const auto* norm = std::get_if<NormOp>(&op);
  return std::holds_alternative<AllGatherOp>(op) || std::holds_alternative<BarrierOp>(op) || (linear && linear->share.group) ||
         (norm && norm->share.group);
}

/// The seconds that lists have taken. The caller of the unit begins a list, a thread of the unit ends it, and then the caller counts it.
class BusyTime {
 public:
  void begin() {
    counted_ = false;
    began_ = std::chrono::steady_clock::now();
  }
  void end() {
    const auto took = std::chrono::steady_clock::now() - began_;
    ended_ns_.store(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  }
  /// Adds the time of an ended list, only once even if called again.
  void count() {
    if (!std::exchange(counted_, true)) seconds_ += 1e-9 * static_cast<double>(ended_ns_.load());
  }
  double seconds() const { return seconds_; }

 private:
  std::chrono::steady_clock::time_point began_;
  std::atomic<std::int64_t> ended_ns_{0};
  bool counted_ = true;
  double seconds_ = 0;
};

}  // namespace yamata
