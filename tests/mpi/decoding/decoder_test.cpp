// The decoder's decisions with a pipeline of one stage: what it sends and when, what it waits for, what it cancels, and what it tells
// sources.
#include "tests/mpi/decoding/decoder_fixture.hpp"

namespace yamata::test {
namespace {

TEST_F(DecoderTest, Prompt_goesInChunks_andItsLastTokenGivesTheFirst) {
  options_.batch = 2;
  options_.strategy = Strategy::kIterative;
  Decoder& decoder = begin();
  EXPECT_EQ(last_width(), 2u);
  EXPECT_FALSE(decoder.prefilled());
  ASSERT_TRUE(step());
  EXPECT_EQ(last_width(), 1u);
  ASSERT_TRUE(step());
  EXPECT_TRUE(decoder.prefilled());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(decoder.counters().runs_started, 3u);
}

TEST_F(DecoderTest, Guesses_goWithTheRoot_andAsManyTokensComeAsWereRight) {
  ScriptedSource& source = add_source();
  Decoder& decoder = begin();
  source.next = {4, 5, 17};
  ASSERT_TRUE(step());  // the prompt gives 3; the source guesses the following tokens
  EXPECT_EQ(text_.back(), 3);
  EXPECT_EQ(last_width(), 4u);
  source.next.clear();
  ASSERT_TRUE(step());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(decoder.counters().drafted, 3u);
  EXPECT_EQ(decoder.counters().accepted, 2u);
  EXPECT_EQ(source.told, text_);
  EXPECT_EQ(source.steps.back().tokens, 3);
  EXPECT_FALSE(source.steps.back().first);
  EXPECT_NEAR(source.steps.back().seconds, 0.010, 1e-9);
}

TEST_F(DecoderTest, TypicalAcceptance_takesGuessesThatAreLikelyEnough) {
  // Before each token of the text, its probability is e / (49 + e) = .053, and that of every other token .019; .3 e^-entropy is .006.
  options_.typical = TypicalAcceptance{};
  options_.typical->banned = {19};
  ScriptedSource& source = add_source();
  Decoder& decoder = begin();
  source.next = {17, 18, 19};
  ASSERT_TRUE(step());
  source.next.clear();
  ASSERT_TRUE(step());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3, 17, 18, 0})) << "no text of the target's goes on like this; 0 is chosen after it";
  EXPECT_EQ(decoder.counters().accepted, 2u);
}

TEST_F(DecoderTest, TypicalAcceptance_ofWhatIsTooUnlikely_isNone) {
  options_.typical = TypicalAcceptance{};
  options_.typical->temperature = 0.25f;  // e^4: .53 before the text's tokens, .0097 before others; .3 e^-entropy is .026
  ScriptedSource& source = add_source();
  begin();
  source.next = {17};
  ASSERT_TRUE(step());
  source.next.clear();
  ASSERT_TRUE(step());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3, 4}));
}

TEST_F(DecoderTest, Iterative_sendsNoGuess) {
  options_.strategy = Strategy::kIterative;
  add_source().next = {4, 5};
  begin();
  ASSERT_TRUE(step());
  EXPECT_EQ(last_width(), 1u);
}

TEST_F(DecoderTest, Root_waitsForAGuessThatComesInTime_andForNoOther) {
  ScriptedSource& source = add_source();
  begin();
  source.knows = true;
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(step());
  source.knows = false;
  source.latency = GuessLatency{0.001, 0.001};
  ASSERT_TRUE(step());
  EXPECT_FALSE(step()) << "nothing is computed: the root waits";
  source.latency = GuessLatency{0.5, 0.5};
  settle();
  EXPECT_TRUE(step()) << "such a guess is not worth it";
}

TEST_F(DecoderTest, DraftOnTheHead_isWaitedForToItsEnd) {
  ScriptedSource& source = add_source();
  source.is_here = source.is_pending = true;
  Decoder& decoder = begin();
  EXPECT_FALSE(step()) << "the prompt's last chunk waits, too";
  EXPECT_TRUE(source.demands.back().until_complete);
  EXPECT_EQ(source.demands.back().min_drafts, options_.policy.draft);
  source.is_pending = false;
  settle();
  EXPECT_TRUE(step());
  EXPECT_TRUE(decoder.prefilled());
}

TEST_F(DecoderTest, DraftOnTheHead_isLeftOutNowAndThen_soThatATokenAloneIsMeasured) {
  ScriptedSource& source = add_source();
  source.is_here = source.knows = true;
  begin();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(step());
  const std::vector<std::size_t> runs(unit().widths.end() - 10, unit().widths.end());
  EXPECT_EQ(runs, (std::vector<std::size_t>{1, 2, 2, 2, 2, 2, 2, 1, 2, 2}));
  EXPECT_EQ(source.steps.back().alone_s, 0.010);
  EXPECT_EQ(std::ranges::count_if(source.demands, &GuessDemand::suspended), 2);
}

TEST_F(DecoderTest, DraftElsewhere_isNotWaitedForBesideOneOnTheHead) {
  ScriptedSource& here = add_source();
  ScriptedSource& elsewhere = add_source();
  here.is_here = elsewhere.is_pending = true;
  begin();
  EXPECT_TRUE(step());
  EXPECT_TRUE(here.demands.back().until_complete);
  EXPECT_FALSE(elsewhere.demands.back().until_complete);
  EXPECT_EQ(elsewhere.demands.back().min_drafts, 0) << "it goes on without end";
}

TEST_F(DecoderTest, Demand_saysWhatTokensAndRowsTake_whereItMatters) {
  options_.policy.name = "chain";
  options_.strategy = Strategy::kSpeculative;
  ScriptedSource& source = add_source();
  begin();
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(step());
  EXPECT_EQ(source.demands.back().epoch, 7u);
  EXPECT_NEAR(source.demands.back().token_s, 0.010, 1e-9);
  EXPECT_NEAR(source.demands.back().row_s, 0.001, 1e-9) << "a tenth, as long as no wider run was measured";
}

TEST_F(DecoderTest, Text_endsWhereItsListenerOrTheContextSaysSo) {
  options_.strategy = Strategy::kIterative;
  options_.context = 6;
  const Decoder& decoder = begin();
  while (!decoder.finished()) ASSERT_TRUE(step());
  EXPECT_EQ(text_.size(), 7u) << "the last needs no cell";
}

TEST_F(DecoderTest, Features_areThoseOfCommittedPositions_eachOnce) {
  ScriptedSource& source = add_source({kOutputFeatures});
  ScriptedSource& deeper = add_source({0, kOutputFeatures});
  ScriptedSource& other = add_source();
  options_.batch = 2;
  Decoder& decoder = begin();
  source.next = {4, 20, 21};  // a right guess and two wrong ones
  while (!decoder.finished()) ASSERT_TRUE(step());
  for (std::int32_t p = 0; p + 1 < static_cast<std::int32_t>(text_.size()); ++p) {
    const auto at = static_cast<std::size_t>(p);
    ASSERT_TRUE(source.features.contains(p)) << p;
    const auto features_of = [&](std::int32_t layer) {
      return simulation::features_of(simulation::token_hash(text_[at], p), simulation::prefix_hash(std::span(text_).first(at + 1)), layer);
    };
    EXPECT_EQ(source.features[p], features_of(kOutputFeatures)) << p;
    std::vector<float> both = features_of(0);
    std::ranges::copy(features_of(kOutputFeatures), std::back_inserter(both));
    EXPECT_EQ(deeper.features[p], both) << p;
  }
  EXPECT_EQ(source.features.size(), text_.size() - 1);
  EXPECT_TRUE(other.features.empty());
}

TEST_F(DecoderTest, AnotherText_beginsOnTheSamePipelineWithTheSameSources) {
  ScriptedSource& source = add_source({kOutputFeatures});
  options_.generate = 5;
  for (std::uint64_t request = 1; request <= 20; ++request) {
    options_.request = request;
    source.features.clear();
    source.next.clear();
    Decoder& decoder = begin();
    source.next = {4, 5, 9};
    while (!decoder.finished()) ASSERT_TRUE(step());
    EXPECT_EQ(text_, (Ids{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(source.requests.back(), request);
    EXPECT_EQ(source.features.size(), 7u);
  }
}

}  // namespace
}  // namespace yamata::test
