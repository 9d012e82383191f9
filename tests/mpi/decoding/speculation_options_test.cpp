// How many guesses can be in flight.
#include "mpi/decoding/speculation_options.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

std::int32_t guesses(Strategy strategy, int stages, const SpeculationOptions& speculation = {}) {
  DecodeOptions decode = decode_options(strategy, speculation, 64, 100, 1000, {});
  limit_guesses(decode, stages);
  return decode.guess_cells;
}

TEST(LimitGuesses, AsManyAsRunsInFlightHave_andThoseOfTheRunBefore) {
  EXPECT_EQ(guesses(Strategy::kIterative, 4), 0);
  EXPECT_EQ(guesses(Strategy::kSpeculative, 1), 16) << "of one run, and as many accepted ones of the run before";
  EXPECT_EQ(guesses(Strategy::kPipeInfer, 1), 32) << "the least that is as fast as more";
  EXPECT_EQ(guesses(Strategy::kPipeInfer, 4), 48) << "a run in each stage, one on the way, and those of the run before";
  EXPECT_EQ(guesses(Strategy::kPipeInfer, 64), 128) << "never more than otherwise";
}

TEST(LimitGuesses, WiderRuns_haveMore) {
  SpeculationOptions speculation;
  speculation.policy.draft = 20;
  EXPECT_EQ(guesses(Strategy::kSpeculative, 1, speculation), 40);
  speculation.policy.draft = 8;
  speculation.policy.budget = 30;
  EXPECT_EQ(guesses(Strategy::kSpeculative, 1, speculation), 60);
  speculation.policy.budget = 0;
  speculation.lookahead = {.window = 5, .ngram = 4, .guesses = 5};
  EXPECT_EQ(guesses(Strategy::kSpeculative, 1, speculation), 2 * speculation.lookahead.nodes());
}

}  // namespace
}  // namespace yamata
