// What guesses cost and save: every decision from numbers that can be worked out by hand.
#include "src/speculation/cost_model.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

/// 10 ms a stage, 4 of them, a token per round trip.
constexpr TargetTimes kFourStages{.stages = 4, .stage_s = 0.010, .round_trip_s = 0.040, .text_rate = 25};
/// Rows that cost a twentieth of the first.
const std::vector<double> kCheapRows{0, 0.05, 0.10, 0.15, 0.20};

TEST(CostModel, TokensTime_isThatOfIteratingOrOfThePresentRate_whicheverIsLess) {
  EXPECT_DOUBLE_EQ(token_s({.round_trip_s = 0.04}), 0.04);
  EXPECT_DOUBLE_EQ(token_s({.round_trip_s = 0.04, .text_rate = 50}), 0.02);
  EXPECT_DOUBLE_EQ(token_s({.round_trip_s = 0.04, .text_rate = 5}), 0.04) << "guesses that cost more than they save";
  EXPECT_EQ(token_s({}), 0);
}

TEST(CostModel, RunsInFlight_fillTheStagesAndTheLinksBetweenThem) {
  EXPECT_EQ(most_runs_in_flight(kFourStages), 4);
  TargetTimes far = kFourStages;
  far.round_trip_s = 0.240;  // four links of 50 ms
  EXPECT_EQ(most_runs_in_flight(far), 24);
  far.stage_s = 0;
  EXPECT_EQ(most_runs_in_flight(far), 4) << "nothing is known yet";
  EXPECT_EQ(most_runs_in_flight({.stages = 3, .stage_s = 0.01, .round_trip_s = 0.02, .text_rate = 0}), 3);
}

TEST(CostModel, RowBehindATilesEdge_costsNoMoreThanTheTileInTheMean) {
  const std::vector<double> tiles{0, 0, 0, 0, 0.8, 0.8, 0.8, 0.8, 1.6};
  EXPECT_DOUBLE_EQ(least_row_cost(tiles, 0), 0);
  EXPECT_DOUBLE_EQ(least_row_cost(tiles, 3), 0.2) << "it opens a tile of four";
  EXPECT_DOUBLE_EQ(least_row_cost(tiles, 4), 0);
  EXPECT_DOUBLE_EQ(least_row_cost(tiles, 7), 0.8) << "nothing is known of the rest of that tile";
  EXPECT_DOUBLE_EQ(least_row_cost(kCheapRows, 2), 0.05);
}

TEST(CostModel, GuessesBesideTheRoot_mustBringWhatTheTextWouldGrowByMeanwhile) {
  EXPECT_DOUBLE_EQ(root_costs(kFourStages, kCheapRows, false).occupancy[2], 0.10 * 4 * 25 * 0.010);
  EXPECT_DOUBLE_EQ(root_costs(kFourStages, kCheapRows, true).occupancy[2], 0.10 * 4) << "left out they follow a step later";
  TargetTimes fast = kFourStages;
  fast.text_rate = 200;
  EXPECT_DOUBLE_EQ(root_costs(fast, kCheapRows, true).occupancy[2], 0.10 * 4 * 2.0);
  TargetTimes slow = kFourStages;
  slow.round_trip_s = 0.040, slow.text_rate = 5;
  EXPECT_DOUBLE_EQ(root_costs(slow, kCheapRows, false).occupancy[2], 0.10 * 4 * 0.010 / 0.040) << "guesses in vain make no row cheaper";
  slow.in_turns = true;
  EXPECT_DOUBLE_EQ(root_costs(slow, kCheapRows, false).occupancy[2], 0.10 * 4 * 5 * 0.010) << "a draft does, which takes the stage's time";
  EXPECT_EQ(root_costs(fast, kCheapRows, true).occupancy.size(), kCheapRows.size());
  EXPECT_TRUE(root_costs(fast, kCheapRows, true).lateness.empty());
}

TEST(CostModel, GuessesBehindTheRoot_costLessForTheStagesAndMoreForTheirOwnResults) {
  const RunCosts costs = guess_costs(kFourStages, kCheapRows);
  EXPECT_NEAR(costs.occupancy[2], 0.25 * 0.10, 1e-12);
  EXPECT_DOUBLE_EQ(costs.lateness[2], 0.75 * 3 * 0.10);
  TargetTimes unknown = kFourStages;
  unknown.text_rate = 0;
  EXPECT_NEAR(guess_costs(unknown, kCheapRows).occupancy[2], 0.25 * 0.10, 1e-12) << "what iterating would give";
  EXPECT_EQ(guess_costs({.stages = 1, .stage_s = 0.01, .round_trip_s = 0, .text_rate = 0}, kCheapRows).lateness[2], 0);
  unknown.stage_s = 0;
  EXPECT_TRUE(guess_costs(unknown, kCheapRows).occupancy.empty()) << "nothing is known yet";
}

/// The same with links on which a row takes four fifths of a stage's time.
TargetTimes slow_links() {
  TargetTimes target = kFourStages;
  target.link_s = 0.008;
  return target;
}

TEST(CostModel, RowOnSlowLinks_delaysItsRunOnEachOfThem) {
  EXPECT_DOUBLE_EQ(delay_s(kFourStages, 0.10, 2), 4 * 0.001);
  EXPECT_DOUBLE_EQ(delay_s(slow_links(), 0.10, 2), 4 * 0.001 + 2 * 3 * 0.008);
  TargetTimes whole_logits = slow_links();
  whole_logits.result_s = 0.080;
  EXPECT_DOUBLE_EQ(delay_s(whole_logits, 0, 1), 3 * 0.008 + 0.080);
  EXPECT_DOUBLE_EQ(step_s(kFourStages), 0.010);
  EXPECT_DOUBLE_EQ(step_s(slow_links()), 0.010);
  EXPECT_DOUBLE_EQ(step_s(whole_logits), 0.080);
}

TEST(CostModel, GuessesBesideTheRoot_costTheirTransferOnEachLink) {
  EXPECT_DOUBLE_EQ(root_costs(slow_links(), kCheapRows, false).occupancy[1], 25 * (4 * 0.0005 + 3 * 0.008));
  EXPECT_DOUBLE_EQ(root_costs(slow_links(), kCheapRows, true).occupancy[1], (4 * 0.0005 + 3 * 0.008) / 0.010);
}

TEST(CostModel, GuessesBehindTheRoot_holdUpASlowLinkRatherThanTheStages) {
  const std::vector<double> behind{0, 0, 0.05, 0.10, 0.15};  // the first row is the run itself
  const RunCosts costs = guess_costs(slow_links(), behind);
  EXPECT_DOUBLE_EQ(costs.occupancy[1], 0) << "a row is less than a stage's time";
  EXPECT_DOUBLE_EQ(costs.occupancy[3], 25 * (0.024 - 0.010)) << "three rows are more";
  EXPECT_DOUBLE_EQ(costs.lateness[1], 0);
  EXPECT_DOUBLE_EQ(costs.lateness[3], 0.75 * (3 * 0.001 + 2 * 3 * 0.008) / 0.010);
  TargetTimes links_bound = slow_links();
  links_bound.link_s = 0.030;
  EXPECT_DOUBLE_EQ(guess_costs(links_bound, behind).occupancy[1], 0);
  EXPECT_DOUBLE_EQ(guess_costs(links_bound, behind).occupancy[2], 25 * 0.030);
  EXPECT_DOUBLE_EQ(guess_costs(links_bound, behind).lateness[2], 0.75 * (3 * 0.0005 + 3 * 0.030) / 0.030) << "in steps of a link";
}

TEST(CostModel, RunsInFlight_areCountedInWhatALinkCarries) {
  EXPECT_DOUBLE_EQ(steps_on_links(kFourStages, 8), 1);
  EXPECT_DOUBLE_EQ(steps_on_links(slow_links(), 1), 1);
  EXPECT_DOUBLE_EQ(steps_on_links(slow_links(), 5), 4) << "five rows of 8 ms in steps of 10";
  EXPECT_DOUBLE_EQ(steps_on_links({}, 8), 1) << "nothing is known yet";
  TargetTimes far = slow_links();
  far.link_s = 0.030;
  far.round_trip_s = 0.240;
  EXPECT_EQ(most_runs_in_flight(far), 8) << "a run of one row leaves a link every 30 ms";
}

/// How many of equally probable guesses below the root go into a run.
std::size_t rows_taken(const RunCosts& costs, float probability) {
  TokenTree tree(0, 0);
  for (std::int32_t token = 0; token < 4; ++token) tree.add(tree.root().id, token, probability, {0, probability});
  return BestFirst({.draft = 4, .threshold = 0}).choose(tree, 4, costs).size();
}

TEST(CostModel, RowsOfARun_areManyWhereTheyAreCheap_fewWhereStagesAreManyAndRowsExpensive) {
  const std::vector<double> expensive{0, 0.25, 0.5, 0.75, 1};
  EXPECT_EQ(rows_taken(root_costs(kFourStages, kCheapRows, false), 0.10f), 4u);
  EXPECT_EQ(rows_taken(root_costs(kFourStages, expensive, false), 0.10f), 0u);
  EXPECT_EQ(rows_taken(root_costs(kFourStages, kCheapRows, true), 0.10f), 0u) << "they can follow";
  TargetTimes deep = kFourStages;
  deep.stages = 16;
  const std::vector<double> behind{0, 0, 0.05, 0.10, 0.15};  // the first row is the run itself
  EXPECT_EQ(rows_taken(guess_costs(kFourStages, behind), 0.2f), 4u);
  EXPECT_EQ(rows_taken(guess_costs(deep, {0, 0, 0.25, 0.5, 0.75}), 0.2f), 1u);
  EXPECT_EQ(rows_taken(root_costs(slow_links(), kCheapRows, false), 0.10f), 0u) << "cheap to compute, expensive to send";
  EXPECT_EQ(rows_taken(guess_costs(slow_links(), behind), 0.2f), 1u);
}

class WaitTest : public testing::Test {
 protected:
  bool waits() const { return may_wait(target_, run_) && worth_waiting(target_, run_, source_); }

  TargetTimes target_ = kFourStages;
  RootRun run_{.guesses = 0, .least_probability = 1, .last_chance = false, .marginal = &kCheapRows};
  AwaitedSource source_{.first_s = 0.001, .next_s = 0.001, .acceptance = 0.8, .open = 1};
};

TEST_F(WaitTest, Guess_isWaitedForWhileWhatItSavesExceedsItsLatencyAndItsRow) {
  // .8 of the three quarters of a stage's time that it would come later by otherwise, less a row of 4 * .5 ms.
  source_.first_s = 0.0039;
  EXPECT_TRUE(waits());
  source_.first_s = 0.0041;
  EXPECT_FALSE(waits());
}

TEST_F(WaitTest, RowOnASlowLink_isNotWorthWaitingForUnlessItIsTheLastChance) {
  source_.first_s = 0.0001;
  EXPECT_TRUE(waits());
  target_.link_s = 0.002;  // three links: as much as it saves
  EXPECT_FALSE(waits());
  run_.last_chance = true;
  EXPECT_TRUE(waits());
  target_.link_s = 0.011;
  EXPECT_FALSE(waits());
}

TEST_F(WaitTest, StepOfASlowLink_isWhatALateGuessLoses) {
  target_.stages = 2;
  target_.text_rate = 20;
  source_.acceptance = 1;
  target_.stage_s = 0.001;
  target_.link_s = 0.005;
  const std::vector<double> free_rows{0, 0, 0};
  run_.marginal = &free_rows;
  source_.first_s = 0.0001;
  EXPECT_FALSE(waits()) << "three quarters of 5 ms, for a row of 5";
  target_.stages = 1;
  source_.first_s = 0.0037;
  EXPECT_TRUE(waits()) << "without a link before the result";
  source_.first_s = 0.0038;
  EXPECT_FALSE(waits());
}

TEST_F(WaitTest, LastChance_isWorthAWholeToken) {
  run_.last_chance = true;
  // .8 * 40 ms less 2 ms for the row.
  source_.first_s = source_.next_s = 0.029;
  EXPECT_TRUE(waits());
  source_.first_s = source_.next_s = 0.031;
  EXPECT_FALSE(waits());
}

TEST_F(WaitTest, AnswerThatTakesLong_isWorthItForTheGuessesAfterIt_ifNothingFollows) {
  source_.first_s = 0.040;
  EXPECT_FALSE(waits());
  run_.last_chance = true;
  EXPECT_TRUE(waits());
  source_.first_s = 0.120;
  EXPECT_FALSE(waits());
}

TEST_F(WaitTest, FullRun_waitsOnlyForWhatDisplacesAWeakerGuess) {
  run_.last_chance = true;
  run_.guesses = 4;
  run_.least_probability = 0.1;
  EXPECT_TRUE(waits());
  run_.least_probability = 0.9;
  EXPECT_FALSE(waits());
  run_.last_chance = false;
  run_.least_probability = 0.1;
  EXPECT_FALSE(waits()) << "others follow";
}

TEST_F(WaitTest, NothingIsWaitedFor_beforeTimesAreKnown_orByWhatNobodyExpects) {
  source_.open = 0.05;
  EXPECT_FALSE(waits()) << "everything has been guessed there";
  source_.open = 1;
  source_.acceptance = 0.1;
  EXPECT_FALSE(waits()) << "the source is never right";
  source_.acceptance = 0.8;
  target_.text_rate = 0;
  EXPECT_FALSE(waits());
  target_ = kFourStages;
  target_.stage_s = 0;
  EXPECT_FALSE(waits());
}

TEST(CostModel, OpenPlace_isWhereTheSourceHasNotGuessedYet) {
  TokenTree tree(0, 0);
  SourceCalibration one(0), other(1);
  EXPECT_DOUBLE_EQ(open_probability(tree, one, {}), 1);
  const NodeId a = one.add(tree, tree.root().id, 5, 0.75f);
  EXPECT_DOUBLE_EQ(open_probability(tree, one, {}), 0) << "the root it has continued, and a is not in the run";
  EXPECT_NEAR(open_probability(tree, one, std::vector{a}), 0.75, 1e-6);
  EXPECT_NEAR(open_probability(tree, other, std::vector{a}), 0.25, 1e-6) << "at the root, for another token than a";
  other.add(tree, a, 6, 0.5f);
  EXPECT_NEAR(open_probability(tree, one, std::vector{a}), 0.375, 1e-6);
}

TEST(CostModel, NextTokenThatOthersHaveGuessed_isNotOpenToASource) {
  TokenTree tree(1, 0);
  SourceCalibration one(0), other(1);
  EXPECT_EQ(unguessed_probability(tree, one), 1);
  const NodeId a = other.add(tree, tree.root().id, 7, 0.5f);
  other.add(tree, a, 8, 0.5f);
  EXPECT_NEAR(unguessed_probability(tree, one), 0.5, 1e-6);
  EXPECT_EQ(unguessed_probability(tree, other), 1);
  one.add(tree, tree.root().id, 7, 0.5f);
  EXPECT_EQ(unguessed_probability(tree, one), 1) << "it has guessed the same, and may guess what follows";
  other.add(tree, tree.root().id, 9, 0.4f);
  EXPECT_NEAR(unguessed_probability(tree, one), 0.6, 1e-6);
}

}  // namespace
}  // namespace yamata
