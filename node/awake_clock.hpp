#pragma once
// Deadlines of a process that may be stopped itself, or get no processor for a while.
#include <algorithm>
#include <utility>

#include "node/clock.hpp"

namespace yamata {

/// A clock that whoever waits asks again and again. Of the time between two looks no more than `longest_step` counts: in the rest the
/// process could neither see what it waits for nor act. So a deadline on this clock is as many looks as it takes, however slow the machine.
class AwakeClock {
 public:
  AwakeClock(Clock::time_point now, Clock::duration longest_step) : looked_(now), awake_(now), longest_step_(longest_step) {}

  /// What it shows, where the time is `now`; begins at the time it was made.
  Clock::time_point look(Clock::time_point now) {
    awake_ += std::min(now - std::exchange(looked_, now), longest_step_);
    return awake_;
  }

 private:
  Clock::time_point looked_, awake_;
  Clock::duration longest_step_;
};

}  // namespace yamata
