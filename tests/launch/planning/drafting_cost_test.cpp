#include "launch/program/planning/drafting_cost.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

DraftingTimes some_times() {
  return {.acceptance = 0.5,
          .token_s = 0.1,
          .verify_s = {{1, 0.11}, {3, 0.12}},
          .draft_s = 0.01,
          .compute_s = 0.02,
          .memory_s = 0.09,
          .load_s = 0.3,
          .device_s = 0.004};
}

TEST(DraftingCost, ExpectedTokens_areTheGeometricSum) {
  EXPECT_DOUBLE_EQ(expected_tokens(0.5, 0), 1);
  EXPECT_DOUBLE_EQ(expected_tokens(0.5, 2), 1.75);
  EXPECT_DOUBLE_EQ(expected_tokens(1, 4), 5) << "all are accepted";
  EXPECT_DOUBLE_EQ(expected_tokens(0, 4), 1);
}

TEST(DraftingCost, Steps_followThePapersEquations) {
  const auto steps = drafting_steps(some_times());
  ASSERT_EQ(steps.size(), 2u);
  const DraftingStep& step = steps[1];
  EXPECT_DOUBLE_EQ(step.draft_s, 0.03);
  EXPECT_DOUBLE_EQ(step.tokens, 1.875);
  EXPECT_DOUBLE_EQ(step.token_s, 0.15 / 1.875) << "equation 1";
  EXPECT_DOUBLE_EQ(step.compute_s, 0.08) << "equation 3";
  EXPECT_DOUBLE_EQ(step.memory_s, 0.09);
  EXPECT_DOUBLE_EQ(step.compute_s + step.memory_s - step.overlap * 0.08, step.verify_s) << "equation 4";
  EXPECT_DOUBLE_EQ(step.speedup, 1.875 / (0.03 / 0.1 + 0.12 / 0.1)) << "equation 6";
}

TEST(DraftingCost, Overlap_isAPartOfTheSmallerTime) {
  DraftingTimes times = some_times();
  times.verify_s = {{1, 0.2}, {3, 0.05}};
  EXPECT_EQ(drafting_steps(times)[0].overlap, 0) << "slower than both, one after the other";
  EXPECT_EQ(drafting_steps(times)[1].overlap, 1) << "faster than the peak rates";
}

TEST(DraftingCost, HeadsThatGuessAtOnce_areEvaluatedOnce) {
  DraftingTimes times = some_times();
  times.at_once = true;
  EXPECT_DOUBLE_EQ(drafting_steps(times)[1].draft_s, 0.01);
}

TEST(DraftingCost, Offloading_takesTheLongerOfCopyingAndComputing) {
  DraftingTimes times = some_times();
  EXPECT_DOUBLE_EQ(offload_token_s(times), 0.3);
  times.load_s = 0.001;
  EXPECT_DOUBLE_EQ(offload_token_s(times), 0.004);
  times.load_s = 0;
  EXPECT_EQ(offload_token_s(times), 0) << "no device";
}

TEST(DraftingCost, Table_saysWhatPays) {
  DraftingTimes times = some_times();
  times.draft_s = 0.009;
  std::string table = to_table(times);
  EXPECT_NE(table.find("drafting pays (3 guesses, 1.28 times as fast)"), std::string::npos) << table;
  EXPECT_NE(table.find("300.000 ms (copying 300.000, computing 4.000); it does not pay"), std::string::npos) << table;
  times.load_s = 0.01, times.draft_s = 0.2;
  table = to_table(times);
  EXPECT_NE(table.find("drafting does not pay"), std::string::npos) << table;
  EXPECT_NE(table.find("it pays"), std::string::npos) << table;
  times.load_s = 0;
  EXPECT_EQ(to_table(times).find("offloading"), std::string::npos) << "no device";
}

}  // namespace
}  // namespace yamata
