// Trees of guesses, their places in the cache, what runs next, what a draft probability is worth.
#include <gtest/gtest.h>

#include "node/error.hpp"
#include "src/speculation/calibration.hpp"
#include "src/speculation/draft_latency.hpp"
#include "src/speculation/make_policy.hpp"
#include "src/speculation/partitions.hpp"
#include "src/speculation/policy.hpp"
#include "src/speculation/step_cost.hpp"
#include "src/speculation/text_rate.hpp"
#include "tests/speculation/example_tree.hpp"

namespace yamata {
namespace {

using Nodes = std::vector<NodeId>;

TEST(TokenTree, PathProbability_isTheProductBelowTheRoot) {
  test::ExampleTree x(0.5f);
  EXPECT_FLOAT_EQ(x.tree.at(x.b).path_probability, 0.4f);
  EXPECT_FLOAT_EQ(x.tree.at(x.e).path_probability, 0.09f);
  EXPECT_EQ(x.tree.at(x.c).position, 12);
}

TEST(TokenTree, Add_mergesEqualTokensOfSeveralDrafters) {
  test::ExampleTree x(0.5f);
  EXPECT_EQ(x.tree.add(x.root, 2, 0.9f, {3, 0.7f}), x.a);
  EXPECT_EQ(x.tree.at(x.a).draft_probability(0), 0.5f);
  EXPECT_EQ(x.tree.at(x.a).draft_probability(3), 0.7f);
  EXPECT_EQ(x.tree.at(x.a).draft_probability(1), std::nullopt);
  EXPECT_FLOAT_EQ(x.tree.at(x.b).path_probability, 0.45f);
  x.tree.add(x.root, 2, 0.1f, {1, 0.5f});
  EXPECT_FLOAT_EQ(x.tree.at(x.a).probability, 0.9f);
}

TEST(TokenTree, Advance_keepsWhatIsBelowTheChosenChild) {
  test::ExampleTree x(0.5f);
  const auto gone = x.tree.advance(2);
  ASSERT_EQ(gone.size(), 3u);
  EXPECT_EQ(gone[0].id, x.root);
  EXPECT_EQ(x.tree.root().id, x.a);
  EXPECT_TRUE(x.tree.alive(x.b) && x.tree.alive(x.c));
  EXPECT_FALSE(x.tree.alive(x.d) || x.tree.alive(x.e));
  EXPECT_FLOAT_EQ(x.tree.at(x.b).path_probability, 0.5f);
}

TEST(TokenTree, AdvanceToATokenNobodyGuessed_leavesANewRootAlone) {
  test::ExampleTree x(0.5f);
  x.tree.advance(77);
  EXPECT_EQ(x.tree.root().token, 77);
  EXPECT_EQ(x.tree.root().position, 11);
  EXPECT_EQ(x.tree.guesses(), 0u);
  EXPECT_FALSE(x.tree.root().sent);
}

TEST(BestFirst, Choose_takesTheMostProbableOfAnyDepthDownToTheThreshold) {
  test::ExampleTree x(0.5f);
  PolicyOptions options;
  options.draft = 3;
  options.threshold = 0.2f;
  EXPECT_EQ(BestFirst(options).choose(x.tree, 10, {}), (Nodes{x.a, x.b, x.c}));
  EXPECT_EQ(BestFirst(options).choose(x.tree, 2, {}), (Nodes{x.a, x.b}));
  x.tree.at(x.a).sent = x.tree.at(x.b).sent = true;
  EXPECT_EQ(BestFirst(options).choose(x.tree, 10, {}), (Nodes{x.c}));
  options.threshold = 0.095f;
  EXPECT_EQ(BestFirst(options).choose(x.tree, 10, {}), (Nodes{x.c, x.d}));
}

TEST(BestFirst, Choose_takesAsManyAsAreWorthTheirTime) {
  test::ExampleTree x(0.5f);
  PolicyOptions options;
  options.threshold = 0;
  const auto chosen = [&](RunCosts costs) { return BestFirst(options).choose(x.tree, 10, costs).size(); };
  EXPECT_EQ(chosen({.occupancy = {0, 0, 0, 0, 0, 0}, .lateness = {}}), 5u);      // rows that cost nothing
  EXPECT_EQ(chosen({.occupancy = {0, 0, 10, 20, 30, 40}, .lateness = {}}), 1u);  // the first is free, the others are not worth it
  EXPECT_EQ(chosen({.occupancy = {}, .lateness = {0, 0, 10, 20, 30, 40}}), 1u);
  EXPECT_EQ(chosen({.occupancy = {0, 10, 20, 30, 40, 50}, .lateness = {}}), 0u);      // nor is any
  EXPECT_EQ(chosen({.occupancy = {0, 0, 0, 0.09, 0.09, 0.09}, .lateness = {}}), 5u);  // a step of the kernels' tile: worth taking whole
}

TEST(TextRate, Rate_isThatOfTheResultsAfterTheFirst) {
  std::int64_t ns = 1'000'000'000;
  const Clock::Override clock(ns);
  TextRate rate;
  rate.text_came(1);
  EXPECT_EQ(rate.per_s(), 0);  // the first waits for the prompt
  ns += 100'000'000;
  rate.text_came(2);
  EXPECT_NEAR(rate.per_s(), 20, 1e-6);
}

class DraftLatencyTest : public testing::Test {
 protected:
  void pass(std::int64_t ms) { ns_ += ms * 1'000'000; }

  std::int64_t ns_ = 1'000'000'000;
  const Clock::Override clock_{ns_};
  DraftLatency latency_;
};

TEST_F(DraftLatencyTest, AnswerToTheText_andGuessesAfterOthersAreToldApart) {
  latency_.text_came();
  pass(500);
  latency_.guesses_came();  // of the prompt
  latency_.text_came();
  EXPECT_EQ(latency_.wait_s(), 0);
  pass(50);
  latency_.guesses_came();
  EXPECT_EQ(latency_.wait_s(), 0) << "of guesses after guesses nothing is known";
  EXPECT_NEAR(latency_.next_s(), 0.050, 1e-6);
  pass(4);
  latency_.guesses_came();
  EXPECT_NEAR(latency_.wait_s(), 0.004, 1e-6);
  EXPECT_NEAR(latency_.next_s(), 0.004, 1e-6);
  latency_.text_came();
  EXPECT_NEAR(latency_.wait_s(), 0.050, 1e-6);
}

TEST_F(DraftLatencyTest, GuessesThatTakeFarLongerThanUsual_areOverdueUntilOthersCome) {
  latency_.text_came();
  pass(100);
  latency_.text_came();
  pass(10);
  latency_.guesses_came();
  latency_.text_came();
  pass(29);
  EXPECT_FALSE(latency_.overdue());
  pass(2);
  EXPECT_TRUE(latency_.overdue());
  latency_.text_came();
  EXPECT_TRUE(latency_.overdue());
  latency_.guesses_came();
  EXPECT_FALSE(latency_.overdue());
  latency_.text_came();
  EXPECT_FALSE(latency_.overdue());
}

TEST(StepCost, RunTimes_areLearntByWidthAndGuessedBetween) {
  StepCost cost;
  EXPECT_EQ(cost.run_s(3), 0);
  cost.ran(1, 2.0);
  EXPECT_DOUBLE_EQ(cost.run_s(1), 2.0);
  EXPECT_GT(cost.run_s(4), 2.0);  // more expensive, but cheap enough to be tried
  EXPECT_LT(cost.run_s(4), 3.0);
  cost.ran(8, 2.2);
  EXPECT_LE(cost.run_s(4), 2.2);  // no more expensive than what is wider
  cost.ran(4, 5.0);
  EXPECT_NEAR(cost.run_s(4), 3.6, 0.02);
  EXPECT_DOUBLE_EQ(cost.run_s(8), cost.run_s(4)) << "wider runs do not take less time";
  StepCost linear;
  linear.ran(1, 2.0);
  linear.ran(9, 18.0);
  EXPECT_DOUBLE_EQ(linear.run_s(5), 10.0) << "in proportion, where it is known on both sides";
  for (int i = 0; i < 100; ++i) cost.ran(4, 2.1);
  cost.ran(8, 2.2);
  EXPECT_NEAR(cost.run_s(4), 2.1, 0.01);
  cost.ran(65, 1000);  // wider than what is known
  EXPECT_NEAR(cost.run_s(16), 2.2 * 2.5 / 1.7, 0.01);
  EXPECT_GT(cost.run_s(17), 1.03 * cost.run_s(16));  // never tried, but not free
}

TEST(StepCost, RunsOfManyTexts_areMeasured_andWiderOnesEstimated) {
  StepCost cost;
  cost.ran(1, 2.0);
  cost.ran(64, 32.0);
  EXPECT_EQ(cost.measured_s().size(), 64u);
  EXPECT_NEAR(cost.run_s(22), 12.0, 1e-9) << "between the two";
  EXPECT_NEAR(cost.marginal(32, 32).back(), (cost.run_s(64) - cost.run_s(32)) / 2.0, 1e-9);
  EXPECT_GT(cost.run_s(100), 32.0);
  cost.ran(65, 1.0);
  EXPECT_NEAR(cost.run_s(64), 32.0, 1e-9);
}

TEST(StepCost, FirstRuns_soonCountLittle) {
  StepCost cost;
  for (int i = 0; i < 8; ++i) cost.ran(1, 4.0);
  EXPECT_DOUBLE_EQ(cost.run_s(1), 4.0) << "nothing else is known";
  EXPECT_GT(cost.run_s(4), 4.0);
  for (int i = 0; i < 2; ++i) cost.ran(1, 2.0);
  cost.ran(2, 2.5);
  EXPECT_NEAR(cost.run_s(1), 2.0, 0.15);
  EXPECT_DOUBLE_EQ(cost.run_s(2), 2.5);
}

TEST(StepCost, OldTimesOfAWidth_giveWayToThoseOfWiderRuns) {
  StepCost cost;
  for (int i = 0; i < 12; ++i) cost.ran(1, 4.0);  // a disturbed machine
  for (int i = 0; i < 300; ++i) cost.ran(2, 2.2);
  EXPECT_NEAR(cost.run_s(1), 2.2, 0.2);
  EXPECT_NEAR(cost.run_s(2), 2.2, 0.2);
}

TEST(Policy, UnknownName_isRefused) {
  PolicyOptions options;
  options.name = "luck";
  EXPECT_THROW(make_policy(options), UsageError);
}

/// Applies what a run brings to a table, as a stage does.
struct Stage {
  CellTable cells{32, 4};
  BatchCells placed;
  void take(Partitions& partitions, const TreeRun& run) {
    for (const CacheOperation& operation : partitions.take_operations()) apply(operation, cells);
    if (!run.tokens.empty()) cells.place(run.placements, placed);
  }
};

struct PartitionsTest : testing::Test {
  PartitionsTest() : partitions(SequenceRange{0, 4}) {
    BatchCells ignored;
    for (std::int32_t p = 0; p < 10; ++p) stage.cells.place(std::vector<Placement>{{p, -1, {0, 1}}}, ignored);
  }
  void lay_out(const Nodes& nodes) { stage.take(partitions, partitions.lay_out(x.tree, nodes)); }
  void advance(std::int32_t token) {
    const auto gone = x.tree.advance(token);
    partitions.commit(x.tree, gone);
  }
  std::size_t visible(NodeId id) const {
    std::size_t n = 0;
    for (std::int32_t p = 0; p <= x.tree.at(id).position; ++p) n += stage.cells.at(x.tree.at(id).sequence, p) != kNoCell;
    return n;
  }
  test::ExampleTree x{0.5f};
  Partitions partitions;
  Stage stage;
};

TEST_F(PartitionsTest, EveryNodesSequence_holdsItsWholePath) {
  lay_out({x.root});
  lay_out({x.a, x.b});
  lay_out({x.c, x.d});
  lay_out({});
  EXPECT_EQ(x.tree.at(x.root).sequence, 0);
  EXPECT_EQ(x.tree.at(x.a).sequence, x.tree.at(x.b).sequence);
  EXPECT_NE(x.tree.at(x.b).sequence, x.tree.at(x.c).sequence);
  for (const NodeId id : {x.a, x.b, x.c, x.d}) EXPECT_EQ(visible(id), static_cast<std::size_t>(x.tree.at(id).position) + 1) << id;
  EXPECT_EQ(partitions.speculative_cells(), 4u);
}

TEST_F(PartitionsTest, Exhaustion_leavesNodesOut) {
  lay_out({x.root});
  const TreeRun run = partitions.lay_out(x.tree, Nodes{x.a, x.b, x.c, x.d, x.e});
  EXPECT_EQ(run.nodes, (Nodes{x.a, x.b, x.c, x.d, x.e}));  // three partitions: a-b, c, d-e
  const NodeId f = x.tree.add(x.root, 9, 0.05f, {0, 0.5f}), g = x.tree.add(f, 9, 0.05f, {0, 0.5f});
  EXPECT_TRUE(partitions.lay_out(x.tree, Nodes{f, g}).nodes.empty());
  EXPECT_FALSE(x.tree.at(f).sent);
}

TEST_F(PartitionsTest, Commit_movesThePathIntoTheTextAndFreesTheRest) {
  lay_out({x.root});
  lay_out({x.a, x.b, x.c, x.d, x.e});
  EXPECT_EQ(partitions.free_partitions(), 0u);
  advance(2);
  advance(4);
  lay_out({});
  EXPECT_NE(stage.cells.at(0, 11), kNoCell);
  EXPECT_NE(stage.cells.at(0, 12), kNoCell);
  EXPECT_EQ(partitions.speculative_cells(), 0u);
  EXPECT_EQ(partitions.free_partitions(), 2u);  // the new root still lies in its own
  advance(50);
  lay_out({});
  EXPECT_EQ(partitions.free_partitions(), 3u);
  EXPECT_EQ(stage.cells.free_cells(), 32 - 13);  // ten, the first root, and the two accepted
}

TEST_F(PartitionsTest, ARejectedGuess_leavesTheSequenceOfItsParent) {
  lay_out({x.root});
  lay_out({x.a, x.b});
  advance(2);
  const std::int32_t root = x.tree.root().position;
  partitions.release(x.tree.prune(), root, root);
  lay_out({});
  EXPECT_EQ(stage.cells.at(x.tree.root().sequence, root + 1), kNoCell);
  EXPECT_EQ(stage.cells.free_cells(), 32 - 12);  // ten, the first root, and the accepted one
}

TEST(Calibration, DraftProbability_isCorrectedByWhatWasAccepted) {
  Calibration calibration;
  EXPECT_FLOAT_EQ(calibration(0.9f, true), 0.9f);
  for (int i = 0; i < 100; ++i) calibration.decided(0.9f, true, i % 2 == 0);
  EXPECT_NEAR(calibration(0.9f, true), 0.5f, 0.05f);
  for (int i = 0; i < 400; ++i) calibration.decided(0.9f, true, true);
  EXPECT_GT(calibration(0.9f, true), 0.9f);
}

TEST(Calibration, SourceThatIsNeverAccepted_countsForLittleWhateverItsProbabilities) {
  Calibration calibration;
  for (int i = 0; i < 20; ++i) {
    calibration.decided(0.6f, true, false);
    calibration.decided(0.2f, false, false);
  }
  for (const float p : {0.05f, 0.4f, 0.9f}) {
    EXPECT_LT(calibration(p, true), 0.2f * p);
    EXPECT_LT(calibration(p, false), 0.2f * p);
  }
}

TEST(Calibration, FirstChoices_areToldFromOthers) {
  Calibration calibration;
  for (int i = 0; i < 100; ++i) {
    calibration.decided(0.4f, true, i % 4 != 0);
    calibration.decided(0.4f, false, i % 10 == 0);
  }
  EXPECT_NEAR(calibration(0.4f, true), 0.75f, 0.05f);
  EXPECT_NEAR(calibration(0.4f, false), 0.1f, 0.05f);
  EXPECT_NEAR(calibration.first_choice_rate(), 0.75, 0.05);
}

}  // namespace
}  // namespace yamata
