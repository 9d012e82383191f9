// The steps of DuoDecoding: how many guesses a step has, what waits for them, and which of them are verified.
#include "tests/mpi/decoding/decoder_fixture.hpp"

namespace yamata::test {
namespace {

TEST_F(DecoderTest, MultiSequence_asksForAsManyGuessesAsAreMadeInTheTimeOfARun) {
  options_.policy = {.name = "multi-sequence", .draft = 16};
  ScriptedSource& source = add_source();
  source.takes_s = 0.0019;  // a run takes 10 ms, but the prompt's does not count
  Decoder& decoder = begin();
  EXPECT_EQ(source.demands.back().min_drafts, 1) << "while the prompt is computed";
  ASSERT_TRUE(step());
  EXPECT_EQ(source.demands.back().min_drafts, 1) << "no run of the text has been measured";
  ASSERT_TRUE(step());
  EXPECT_EQ(source.demands.back().min_drafts, 4);
  EXPECT_NEAR(decoder.counters().cost_coefficient, 5.26, 0.01);
  EXPECT_EQ(decoder.counters().draft_budget, 4u);
  source.takes_s = 0.02;
  ASSERT_TRUE(step());
  EXPECT_EQ(source.demands.back().min_drafts, 1) << "slower than the target";
}

TEST_F(DecoderTest, MultiSequence_ofTwoDrafts_waitsForTheSlowerOne) {
  options_.policy = {.name = "multi-sequence", .draft = 16};
  ScriptedSource& slow = add_source();
  add_source().takes_s = 0.001;
  slow.takes_s = 0.0031;
  Decoder& decoder = begin();
  ASSERT_TRUE(step());
  ASSERT_TRUE(step());
  EXPECT_EQ(decoder.counters().draft_budget, 3u);
}

TEST_F(DecoderTest, MultiSequence_ofSourcesThatTakeNoTime_hasAllGuessesOfARun) {
  options_.policy = {.name = "multi-sequence", .draft = 16};
  add_source();
  Decoder& decoder = begin();
  ASSERT_TRUE(step());
  ASSERT_TRUE(step());
  EXPECT_EQ(decoder.counters().draft_budget, 16u);
}

TEST_F(DecoderTest, MultiSequence_withADraftInTurns_verifiesAllSequences) {
  options_.policy = {.name = "multi-sequence", .draft = 4, .budget = 3};
  options_.strategy = Strategy::kSpeculative;
  ScriptedSource& source = add_source();
  Decoder& decoder = begin();
  source.next = {5, 6, 7, 8};
  ASSERT_TRUE(step());
  EXPECT_EQ(source.demands.back().min_drafts, 3);
  EXPECT_EQ(decoder.counters().sequences, (std::vector<std::uint64_t>{1}));
}

TEST_F(DecoderTest, MultiSequence_besideTheTarget_isWaitedFor_andTheRunHasTheSequenceThatFollows) {
  options_.policy = {.name = "multi-sequence", .draft = 4, .budget = 4};
  options_.reuse_tree = false;  // as in the preset
  ScriptedSource& source = add_source();
  source.is_pending = true;
  Decoder& decoder = begin();
  ASSERT_TRUE(step());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3})) << "the first token is not held";
  ASSERT_TRUE(step());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3}));
  EXPECT_FALSE(step()) << "nothing is computed meanwhile";
  source.is_pending = false;
  source.next = {5, 6, 7};
  settle();
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(last_width(), 4u) << "the root and the sequence";
  EXPECT_FALSE(source.demands.back().resend) << "what was drafted beside the run is not dropped";
  source.next.clear();
  ASSERT_TRUE(step());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(last_width(), 1u) << "nothing is drafted after it";
  EXPECT_TRUE(decoder.counters().sequences.empty()) << "steps are counted by what was drafted beside their run: nothing";
  EXPECT_FALSE(decoder.finished());
}

TEST_F(DecoderTest, MultiSequence_besideTheTarget_doesNotWaitForADraftOfItsOwnUnit_norForASingleGuess) {
  options_.policy = {.name = "multi-sequence", .draft = 2, .budget = 2};
  ScriptedSource& source = add_source();
  begin();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(step());
  source.latency = GuessLatency{0.001, 0.001};
  ASSERT_TRUE(step());
  EXPECT_TRUE(step()) << "the guesses of the step before are all that there are";
  source.is_here = source.is_pending = true;
  EXPECT_TRUE(source.demands.back().at_any_cost);
  const std::size_t tokens = text_.size();
  ASSERT_TRUE(step());
  EXPECT_EQ(text_.size(), tokens + 1) << "the root waits for it instead";
  EXPECT_FALSE(step());
}

}  // namespace
}  // namespace yamata::test
