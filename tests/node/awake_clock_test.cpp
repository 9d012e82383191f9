// The time that counts between two reads of the clock.
#include "node/awake_clock.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

using namespace std::chrono_literals;

TEST(AwakeClock, ShortSteps_countWhole_andOfLongOnesAPart) {
  Clock::time_point now{1h};
  AwakeClock clock(now, 100ms);
  for (int i = 1; i <= 10; ++i) EXPECT_EQ(clock.look(now += 30ms), Clock::time_point{1h} + i * 30ms);
  EXPECT_EQ(clock.look(now += 5min), Clock::time_point{1h} + 400ms) << "this process was stopped";
  EXPECT_EQ(clock.look(now), Clock::time_point{1h} + 400ms);
  EXPECT_EQ(clock.look(now += 100ms), Clock::time_point{1h} + 500ms);
}

}  // namespace
}  // namespace yamata
