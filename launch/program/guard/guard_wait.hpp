#pragma once
// How long a rank that ends waits for its guard.
#include <sys/types.h>

#include <chrono>

#include "node/awake_clock.hpp"

namespace yamata {

/// A rank that has ended its work waits until its guard lets it leave. It leaves anyway if the guard has died, or does not answer.
class GuardWait {
 public:
  using Clock = std::chrono::steady_clock;
  GuardWait(pid_t guard, Clock::time_point now) : guard_(guard), clock_(now, kLongestStep), end_(now + kLimit) {}

  /// Whether to wait on. `parent`: the rank's parent process. Call it several times per second: time in which the rank itself was stopped
  /// hardly counts.
  bool goes_on(pid_t parent, bool may_leave, Clock::time_point now) { return parent == guard_ && !may_leave && clock_.look(now) < end_; }

 private:
  static constexpr std::chrono::milliseconds kLimit{5000}, kLongestStep{100};  // a guard answers within milliseconds
  pid_t guard_;
  AwakeClock clock_;
  Clock::time_point end_;
};

}  // namespace yamata
