// Thousands of random clusters: the text is that of the function alone, for any guess source and any delays of messages.
//   YAMATA_SIMULATION_SEEDS=20000 simulation_test     the long set
//   YAMATA_SIMULATION_SEED=17 simulation_test         one seed, with a trace
#include "tests/mpi/simulation/simulation.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/thorough.hpp"

namespace yamata::test {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t absent) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : absent;
}

TEST(Simulation, EveryScenario_givesTheTextOfTheTargetAlone) {
  if (const auto seed = number_from("YAMATA_SIMULATION_SEED", 0)) {
    const Scenario scenario = Scenario::random(seed);
    GTEST_LOG_(INFO) << scenario.describe();
    EXPECT_EQ(play(scenario, true).fault, "");
    return;
  }
  const auto seeds = number_from("YAMATA_SIMULATION_SEEDS", thorough() ? 1000 : 300);
  std::uint64_t drafted = 0, accepted = 0, cancelled = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Scenario scenario = Scenario::random(seed);
    const Outcome outcome = play(scenario);
    ASSERT_EQ(outcome.fault, "") << scenario.describe() << "\nreplay: YAMATA_SIMULATION_SEED=" << seed << " simulation_test";
    drafted += outcome.counters.drafted;
    accepted += outcome.counters.accepted;
    cancelled += outcome.counters.runs_cancelled;
  }
  // The scenarios exercise what they are made for.
  EXPECT_GT(accepted, seeds);
  EXPECT_GT(drafted, accepted);
  EXPECT_GT(cancelled, seeds / 2);
  GTEST_LOG_(INFO) << seeds << " scenarios: " << drafted << " guesses, " << accepted << " accepted, " << cancelled << " runs cancelled";
}

}  // namespace
}  // namespace yamata::test
