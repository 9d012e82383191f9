// Jobs on links from 1000 to 10 Mbit/s: the number of rows is limited to what links carry, and guessing ahead is worth it everywhere.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/mpi/simulation/virtual_jobs.hpp"

namespace yamata::simulation {
namespace {

/// Four ranks, one of them a drafter unless the strategy is iterative; 50 ms per token, activations of 16 KB per row.
Scenario four_ranks(Strategy strategy, double mbit_s, Nanoseconds latency) {
  const int stages = strategy == Strategy::kIterative ? 4 : 3;
  Scenario s = job_of(stages, strategy, 50 * kMillisecond, kMillisecond * 5 / 2, 256);
  s.width = s.draft_width = WidthCost({0.05});
  s.network = {.latency = latency, .bytes_per_s = mbit_s * 1e6 / 8, .wake_up = 50'000};
  s.prompt = 64;
  s.decode.logits = 1;
  return s;
}

/// Seconds for two texts.
double time_over_links(Scenario s) {
  double seconds = 0;
  for (s.text.seed = 0; s.text.seed < 2; ++s.text.seed) {
    const Outcome outcome = simulate(s);
    EXPECT_TRUE(outcome.exact);
    seconds += 1e-9 * static_cast<double>(outcome.arrived.back());
  }
  return seconds;
}

TEST(SlowLinks, PipeInfer_isTheFastestOnEveryLink) {
  for (const double mbit_s : {1000.0, 100.0, 10.0}) {
    for (const Nanoseconds latency : {kMillisecond / 10, 5 * kMillisecond, 25 * kMillisecond, 100 * kMillisecond}) {
      const double pipeinfer = time_over_links(four_ranks(Strategy::kPipeInfer, mbit_s, latency));
      const double speculative = time_over_links(four_ranks(Strategy::kSpeculative, mbit_s, latency));
      const double iterative = time_over_links(four_ranks(Strategy::kIterative, mbit_s, latency));
      EXPECT_LT(pipeinfer, iterative / 0.98) << mbit_s << " Mbit/s, " << latency;
      EXPECT_LT(pipeinfer, speculative / (latency < 25 * kMillisecond ? 1.1 : 1.3)) << mbit_s << " Mbit/s, " << latency;
      EXPECT_LT(speculative, iterative) << mbit_s << " Mbit/s, " << latency;
    }
  }
}

TEST(SlowLinks, Runs_areAsWideAsTheLinkCarries) {
  for (const Strategy strategy : {Strategy::kSpeculative, Strategy::kPipeInfer}) {
    for (const double mbit_s : {1000.0, 10.0}) {
      Scenario s = four_ranks(strategy, mbit_s, 25 * kMillisecond);
      const double free = time_over_links(s);
      for (const int most : {1, 2, 4}) {
        s.decode.policy.draft = most;
        EXPECT_LT(free, 1.05 * time_over_links(s)) << mbit_s << " Mbit/s, at most " << most;
      }
    }
  }
}

TEST(SlowLinks, ResultsOfAllLogits_areMuchToSendBack) {
  Scenario s = four_ranks(Strategy::kPipeInfer, 100, kMillisecond / 10);
  s.decode.logits = 0;  // 128 KB per row
  const double free = time_over_links(s);
  s.decode.policy.draft = 1;
  EXPECT_LT(free, 1.05 * time_over_links(s));
  Scenario plain = four_ranks(Strategy::kIterative, 100, kMillisecond / 10);
  plain.decode.logits = 0;
  EXPECT_LT(free, time_over_links(plain) / 0.98);
}

}  // namespace
}  // namespace yamata::simulation
