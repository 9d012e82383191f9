// The steps of DuoDecoding in virtual time: their length, their guesses, and the text.
#include <gtest/gtest.h>

#include "src/speculation/shaped_policies.hpp"
#include "tests/mpi/simulation/virtual_jobs.hpp"

namespace yamata::simulation {
namespace {

/// A target that takes four times as long as its draft, which is always right, with a fixed number of guesses in one sequence.
Outcome with_budget(int budget) {
  Scenario s = longer(ideal(1, Strategy::kPipeInfer));
  s.drafters = {6 * kMillisecond};
  s.text.top1 = s.text.top4 = 1;
  s.decode.policy = {.name = "multi-sequence", .draft = budget, .sequences = 1, .budget = budget};
  s.decode.reuse_tree = false;  // as in the preset; what was drafted during a run is verified nevertheless
  s.draft = draft_options(s.decode.policy);
  return simulate(s);
}

TEST(VirtualSteps, BudgetAboveTheCostCoefficient_isWaitedFor) {
  const Outcome outcome = with_budget(16);
  EXPECT_TRUE(outcome.exact);
  EXPECT_NEAR(outcome.counters.cost_coefficient, 3.7, 0.4) << "of a run, not of the time that its result is held; all have several rows";
  EXPECT_EQ(outcome.arrived[100] - outcome.arrived[100 - 16], 16 * 6 * kMillisecond);  // the first guess is what the result adds
  EXPECT_EQ(outcome.counters.drafted, 15 * (outcome.counters.runs_started - 2)) << "all but the prompt's run and the next one";
  EXPECT_GT(outcome.drafter_busy.at(0), 0.95);
}

TEST(VirtualSteps, BudgetBelowTheCostCoefficient_endsTheDraftOfAStep) {
  const Outcome outcome = with_budget(2);
  EXPECT_EQ(outcome.arrived[100] - outcome.arrived[98], 24 * kMillisecond);
  EXPECT_NEAR(outcome.drafter_busy.at(0), 0.5, 0.02) << "two guesses of 6 ms in 24 ms";
}

TEST(VirtualSteps, Sequences_haveEqualLengths_andARunVerifiesOneOfThem) {
  for (const int sequences : {1, 2, 3}) {
    Scenario s = longer(real(1, Strategy::kPipeInfer));
    s.drafters = {2 * kMillisecond};
    s.text.top1 = 0.6, s.text.top4 = 0.9;
    s.decode.policy = {.name = "multi-sequence", .draft = 12, .sequences = sequences, .budget = 12};
    s.draft = draft_options(s.decode.policy);
    const Outcome outcome = simulate(s);
    const auto& counters = outcome.counters;
    EXPECT_TRUE(outcome.exact);
    ASSERT_EQ(counters.sequences.size(), static_cast<std::size_t>(sequences));
    EXPECT_GT(counters.sequences.back(), counters.target_evaluations * 9 / 10);
    const auto most = static_cast<std::uint64_t>(12 / sequences - 1);  // the first token of a sequence is known then
    EXPECT_EQ(counters.drafted % most, 0u) << sequences;
    EXPECT_GT(counters.drafted, counters.runs_started * most / 5);
    EXPECT_LT(counters.drafted, counters.runs_started * most);
  }
}

TEST(VirtualSteps, BudgetFromTheCostCoefficient_keepsTargetAndDraftBusy) {
  Scenario s = longer(ideal(2, Strategy::kPipeInfer));
  s.drafters = {5 * kMillisecond};
  s.text.top1 = s.text.top4 = 1;
  s.decode.policy = {.name = "multi-sequence", .draft = 32, .sequences = 1};
  s.draft = draft_options(s.decode.policy);
  const Outcome outcome = simulate(s);
  EXPECT_TRUE(outcome.exact);
  EXPECT_EQ(outcome.counters.draft_budget, 4u) << "24 / 5, rounded down to a number of many divisors";
  EXPECT_EQ(outcome.arrived[100] - outcome.arrived[96], 24 * kMillisecond);
  EXPECT_NEAR(outcome.drafter_busy.at(0), 20. / 24, 0.05);
}

}  // namespace
}  // namespace yamata::simulation
