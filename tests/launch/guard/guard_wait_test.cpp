// How long a rank that ends waits for its guard, in virtual time.
#include "launch/program/guard/guard_wait.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

using std::chrono::milliseconds;
constexpr pid_t kGuard = 4711, kOther = 1;

TEST(GuardWaitTest, RankLeavesAtOnce_ifItMayOrItsGuardHasDied) {
  const GuardWait::Clock::time_point now{std::chrono::hours(1)};
  GuardWait wait(kGuard, now);
  EXPECT_TRUE(wait.goes_on(kGuard, false, now));
  EXPECT_FALSE(wait.goes_on(kGuard, true, now));
  EXPECT_FALSE(wait.goes_on(kOther, false, now));
}

TEST(GuardWaitTest, GuardThatNeverAnswers_isWaitedForFiveSeconds_inWhichTheRankItselfRuns) {
  GuardWait::Clock::time_point now{std::chrono::hours(1)};
  GuardWait wait(kGuard, now);
  now += std::chrono::minutes(1);  // the rank was stopped
  int waited_ms = 0;
  while (waited_ms < 20000 && wait.goes_on(kGuard, false, now)) now += milliseconds(50), waited_ms += 50;
  EXPECT_GE(waited_ms, 4800);
  EXPECT_LE(waited_ms, 5000);
}

}  // namespace
}  // namespace yamata
