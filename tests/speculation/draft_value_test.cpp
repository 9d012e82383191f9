// Whether a draft is worth the time that the text waits for it.
#include "src/speculation/draft_value.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace yamata {
namespace {

TEST(DraftValue, Chain_savesWhatItsGuessesAreWorthLessItsTime) {
  const DraftTimes times{.first_s = 0.2, .next_s = 0.1, .row_s = 0.05, .token_s = 1};
  EXPECT_NEAR(most_saved_s(times, 0.5, 1), 0.5 - 0.05 - 0.2, 1e-12);
  // The second is worth .25 - .15, the third .125 - .15: it is left out.
  EXPECT_NEAR(most_saved_s(times, 0.5, 8), 0.25 + 0.1, 1e-12);
  EXPECT_NEAR(least_worth_drafting(times, 0.5), 0.3, 1e-12);
}

TEST(DraftValue, FirstGuessThatTakesLong_isWorthItForThoseAfterIt) {
  const DraftTimes times{.first_s = 1.2, .next_s = 0.01, .row_s = 0.01, .token_s = 1};
  EXPECT_EQ(most_saved_s(times, 0.9, 1), 0);
  EXPECT_GT(most_saved_s(times, 0.9, 8), 1);
}

TEST(DraftValue, DraftAsLargeAsItsTarget_neverSavesAnything) {
  for (const double hit : {0.0, 0.5, 1.0}) EXPECT_EQ(most_saved_s({1, 1, 0, 1}, hit, 16), 0);
  EXPECT_TRUE(std::isinf(least_worth_drafting({1, 1, 0, 1}, 0)));
}

TEST(DraftBalance, StepsThatTakeLongerThanTheirTokens_areNoticedSoonAndForgotten) {
  DraftBalance balance;
  for (int step = 0; step < 2; ++step) balance.step(1, 1.6, 1);
  EXPECT_FALSE(balance.negative()) << "a good draft misses at times";
  for (int step = 0; step < 3; ++step) balance.step(1, 1.6, 1);
  EXPECT_TRUE(balance.negative());
  for (int step = 0; step < 3; ++step) balance.step(3, 1.6, 1);
  EXPECT_FALSE(balance.negative());
}

TEST(ProbeBudget, Probes_takeAHundredthOfTheTime) {
  std::int64_t ns = 0;
  const Clock::Override clock(ns);
  ProbeBudget probes;
  int made = 0;
  for (int step = 0; step < 1000; ++step, ns += 100'000'000) made += probes.afford(0.25);
  EXPECT_EQ(made, 3);  // 99.9 s: not quite four times .25 s
}

}  // namespace
}  // namespace yamata
