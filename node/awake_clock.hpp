#pragma once
// Deadlines of a process that may be stopped itself, or get no processor for a while.
#include <algorithm>
#include <utility>

#include "node/clock.hpp"

namespace yamata {

/// A clock that a waiting process reads repeatedly. At most `longest_step` of the time between two reads counts; during the rest, the
/// process could neither see what it waits for nor act. So a deadline on this clock takes a minimum number of reads, however slow the
/// machine is.
class AwakeClock {
 public:
  AwakeClock(Clock::time_point now, Clock::duration longest_step) : looked_(now), awake_(now), longest_step_(longest_step) {}

  /// The time of this clock when the real time is `now`. It starts at the real time of construction.
  Clock::time_point look(Clock::time_point now) {
    awake_ += std::min(now - std::exchange(looked_, now), longest_step_);
    return awake_;
  }

 private:
  Clock::time_point looked_, awake_;
  Clock::duration longest_step_;
};

}  // namespace yamata
