#pragma once
// What every compute unit asks of the list of operations that it runs, and notes of it.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>
#include <variant>

#include "node/op.hpp"

namespace yamata {

/// Whether the members of a group, or the units of a machine, meet in the operation.
inline bool meets(const Op& op) {
  const auto* linear = std::get_if<LinearOp>(&op);
  const auto* norm = std::get_if<NormOp>(&op);
  return std::holds_alternative<AllGatherOp>(op) || std::holds_alternative<MeetOp>(op) || (linear && linear->share.group) ||
         (norm && norm->share.group);
}

/// Seconds that lists have taken: each is begun by whom the unit serves, ended by a thread of the unit, and then counted by whom it serves.
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
  /// Of a list that has ended; once, however often it is called.
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
