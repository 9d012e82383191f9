// Whole jobs in virtual time: results that can be computed by hand, and the text, which is always the target's.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "mpi/cluster/head.hpp"
#include "src/speculation/shaped_policies.hpp"
#include "tests/mpi/simulation/virtual_jobs.hpp"

namespace yamata::simulation {
namespace {

Nanoseconds time_of(const Scenario& scenario) {
  const Outcome outcome = simulate(scenario);
  EXPECT_TRUE(outcome.exact);
  return outcome.arrived.back();
}

TEST(VirtualCluster, OneStageIterative_takesTheStagesTimePerToken) {
  const Outcome outcome = simulate(ideal(1, Strategy::kIterative));
  EXPECT_EQ(outcome.prefill, 24 * kMillisecond);
  for (std::size_t i = 0; i < outcome.arrived.size(); ++i) EXPECT_EQ(outcome.arrived[i], static_cast<Nanoseconds>(i) * 24 * kMillisecond);
  EXPECT_DOUBLE_EQ(outcome.stage_busy.at(0), 1.0);
}

TEST(VirtualCluster, IterativePipeline_takesTheSumOfItsStagesAndOfItsMessages) {
  Scenario s = ideal(4, Strategy::kIterative);
  EXPECT_EQ(time_of(s), 63 * 24 * kMillisecond);
  s.network.latency = kMillisecond;  // three hops, and the way back of the logits
  EXPECT_EQ(time_of(s), 63 * 28 * kMillisecond);
}

TEST(VirtualCluster, PerfectDrafterInSingleRows_givesAlmostATokenPerStageTime) {
  for (const int stages : {2, 4, 8}) {
    Scenario s = ideal(stages, Strategy::kPipeInfer);
    s.decode.policy.draft = 1;
    s.text.top1 = s.text.top4 = 1;
    const double faster = 63.0 * 24 * kMillisecond / static_cast<double>(time_of(s));
    EXPECT_GT(faster, 0.85 * stages);
    EXPECT_LE(faster, 1.02 * stages);
  }
}

/// Tokens per second of so many texts at the same time, relative to those of one.
double times_as_many(Scenario s, int texts) {
  s.requests = 1;
  const Outcome one = simulate(s);
  s.requests = texts;
  const Outcome all = simulate(s);
  EXPECT_TRUE(one.exact && all.exact);
  return tokens_per_s(all.requests) * 1e-9 * static_cast<double>(one.arrived.back()) / static_cast<double>(one.arrived.size() - 1);
}

TEST(VirtualCluster, SeveralTexts_keepAllStagesBusy) {
  Scenario s = longer(real(4, Strategy::kIterative));
  EXPECT_GT(times_as_many(s, 2), 0.95 * 2);
  EXPECT_GT(times_as_many(s, 4), 0.9 * 4);
  // A row more takes a twentieth longer.
  EXPECT_GT(times_as_many(s, 8), 0.85 * 4 * 2 / 1.05);
  EXPECT_GT(times_as_many(s, 16), 0.85 * 4 * 4 / 1.15);
}

TEST(VirtualCluster, SeveralTexts_shareRunsEvenlyWhereALaterStageIsSlowest) {
  Scenario s = longer(real(4, Strategy::kIterative));
  s.width = WidthCost({0.02});
  s.stages = {5 * kMillisecond, 5 * kMillisecond, 6 * kMillisecond, 8 * kMillisecond};
  const double most = 24.0 / 8;  // texts of one row each, for the slowest stage
  EXPECT_GT(times_as_many(s, 8), 0.9 * most * 2 / 1.02);
  EXPECT_GT(times_as_many(s, 16), 0.9 * most * 4 / 1.06);
}

TEST(VirtualCluster, DrafterThatDiesUnnoticed_holdsTheTextUpOnce) {
  for (const int stages : {1, 3}) {
    Scenario s = ideal(stages, Strategy::kPipeInfer);
    s.drafters = {2 * kMillisecond};
    s.drafter_dies_after = 16;
    const Outcome outcome = simulate(s);
    EXPECT_TRUE(outcome.exact);
    EXPECT_LE(outcome.arrived.back() - outcome.arrived[15], (48 + 2) * 24 * kMillisecond) << stages;
  }
}

TEST(VirtualCluster, LayersWithStates_giveTheSameTextAtTheSameTimes) {
  Scenario s = longer(real(3, Strategy::kPipeInfer));
  const Outcome without = simulate(s);
  s.states = s.draft_states = true;
  const Outcome with = simulate(s);
  EXPECT_TRUE(with.exact);
  EXPECT_EQ(with.arrived, without.arrived);
}

TEST(VirtualCluster, SameScenario_givesTheSameOutcomeToTheNanosecond) {
  Scenario s = real(5, Strategy::kPipeInfer);
  const Outcome first = simulate(s), again = simulate(s);
  EXPECT_EQ(first.tokens, again.tokens);
  EXPECT_EQ(first.arrived, again.arrived);
  EXPECT_EQ(first.counters.runs_cancelled, again.counters.runs_cancelled);
  EXPECT_EQ(first.drafter_busy, again.drafter_busy);
  s.text.seed = 1;
  EXPECT_NE(simulate(s).tokens, first.tokens);
}

TEST(VirtualCluster, Text_isTheTargetsWhateverSpeculates) {
  for (const Strategy strategy : {Strategy::kIterative, Strategy::kSpeculative, Strategy::kPipeInfer}) {
    for (int stages = 2; stages <= 8; ++stages) {
      Scenario s = real(stages, strategy);
      EXPECT_TRUE(simulate(s).exact) << stages;
      s.text.top1 = s.text.top4 = 0.2;
      s.text.over_confidence = 1;
      EXPECT_TRUE(simulate(s).exact) << stages;
    }
  }
}

TEST(VirtualCluster, DraftThatIsTooUnsure_guessesLess) {
  Scenario right = longer(real(1, Strategy::kSpeculative)), unsure = right;
  unsure.text.over_confidence = -0.4;
  EXPECT_LT(simulate(unsure).counters.drafted, simulate(right).counters.drafted);
}

TEST(VirtualCluster, SingleStage_takesAllGuessesWithTheRoot_andBeatsDraftingInTurns) {
  for (const double top1 : {0.5, 0.65, 0.8}) {
    Scenario s = longer(real(1, Strategy::kPipeInfer)), in_turns = longer(real(1, Strategy::kSpeculative));
    for (Scenario* scenario : {&s, &in_turns}) {
      scenario->drafters[0] = kMillisecond;
      scenario->text.top1 = top1;
      scenario->text.top4 = top1 + 0.58 * (1 - top1);
    }
    const Outcome outcome = simulate(s);
    EXPECT_EQ(outcome.counters.runs_started, outcome.counters.target_evaluations) << top1;
    EXPECT_GT(outcome.counters.accepted, 50u);
    EXPECT_LT(outcome.arrived.back(), time_of(in_turns)) << top1;
  }
}

TEST(VirtualCluster, DraftOnTheHeadThatCostsMoreThanItGives_isLeftAlone) {
  for (const char* policy : {"best-first", "chain"}) {
    for (const Strategy strategy : {Strategy::kSpeculative, Strategy::kPipeInfer}) {
      for (const int stages : {1, 3}) {
        const Nanoseconds alone = time_of(longer(real(stages, Strategy::kIterative)));
        for (const Nanoseconds draft : {1, 6, 12, 24, 48}) {  // a token takes 24 ms
          for (const double top1 : {0.05, 0.4, 0.65}) {
            Scenario s = longer(real(stages, strategy));
            s.draft_on_head = true;
            s.drafters = {draft * kMillisecond};
            s.slowness.resize(s.stages.size());
            s.decode.policy.name = policy;
            s.text.top1 = top1;
            s.text.top4 = top1 + 0.2 * (1 - top1);
            EXPECT_GE(static_cast<double>(alone), 0.975 * static_cast<double>(time_of(s)))
                << policy << ", draft of " << draft << " ms, right in " << top1 << ", " << stages << " stages";
          }
        }
      }
    }
  }
}

TEST(VirtualCluster, Chain_sendsWholeBatches_whicheverTakesLonger) {
  for (const Nanoseconds draft : {kMillisecond / 2, 2 * kMillisecond, 5 * kMillisecond}) {
    Scenario s = longer(real(4, Strategy::kPipeInfer));
    s.drafters[0] = draft;
    s.decode.policy.name = "chain";
    s.decode.policy.draft = 4;
    s.decode.policy.accept = 0;
    s.draft = draft_options(s.decode.policy);
    const Outcome outcome = simulate(s);
    EXPECT_TRUE(outcome.exact);
    EXPECT_GT(outcome.counters.accepted, 20u) << draft;
    EXPECT_EQ(outcome.counters.drafted % 4, 0u) << draft << ": the drafter goes on, so none is smaller";
  }
}

TEST(VirtualCluster, Speculative_waitsForGuessesThatAreWorthItAndNoOthers) {
  for (const auto& [row, gain] : {std::pair(0.05, 1.8), std::pair(0.25, 1.4)}) {
    Scenario s = longer(real(4, Strategy::kSpeculative)), plain = longer(real(4, Strategy::kIterative));
    s.width = plain.width = WidthCost({row});
    s.drafters[0] = 2 * kMillisecond;
    std::vector<Nanoseconds> times;  // by the largest number of guesses per run
    for (const int most : {1, 2, 4, 8, 32}) {
      s.decode.policy.draft = most;
      times.push_back(time_of(s));
    }
    EXPECT_GT(static_cast<double>(time_of(plain)), gain * static_cast<double>(times.back())) << row;
    EXPECT_LT(times.back(), *std::min_element(times.begin(), times.end()) * 103 / 100) << row;
  }
}

/// Speedup of `speculative` over iterative decoding with two stages and drafts that take 1 % of a token's time and are right in 85 %.
double gain_of_speculative(Nanoseconds latency, int drafters) {
  Scenario s = longer(real(2, Strategy::kSpeculative)), plain = longer(real(2, Strategy::kIterative));
  for (Scenario* scenario : {&s, &plain}) {
    scenario->network.latency = latency;
    scenario->text.top1 = 0.85;
    scenario->text.top4 = 0.94;
  }
  s.drafters.assign(static_cast<std::size_t>(drafters), kMillisecond / 4);
  s.slowness.assign(s.stages.size() + s.drafters.size(), 1.0);
  return static_cast<double>(time_of(plain)) / static_cast<double>(time_of(s));
}

TEST(VirtualCluster, SpeculativeOverASlowNetwork_waitsForTheAnswerThatOtherGuessesFollow) {
  EXPECT_GT(gain_of_speculative(6 * kMillisecond, 1), 2.38);  // 2.28 if only the next guess counts
}

TEST(VirtualCluster, SpeculativeWithTwoDrafters_waitsForGuessesThatDisplaceWeakerOnes) {
  EXPECT_GT(gain_of_speculative(kMillisecond / 10, 2), 3.06);  // 3.01 if a full run waits for no guess
}

TEST(VirtualCluster, DrafterOnTheHead_takesTurnsWithItsLayers) {
  Scenario s = real(3, Strategy::kPipeInfer);
  s.draft_on_head = true;
  s.slowness.pop_back();
  const Outcome outcome = simulate(s);
  EXPECT_TRUE(outcome.exact);
  EXPECT_GT(outcome.counters.accepted, 0u);
  EXPECT_TRUE(outcome.drafter_busy.empty());
}

TEST(VirtualCluster, DraftHeads_evaluateTheirGuessesAgainWhenTheyAreText) {
  for (const Strategy strategy : {Strategy::kSpeculative, Strategy::kPipeInfer}) {
    for (const bool on_head : {false, true}) {
      Scenario model = longer(real(3, strategy));
      model.drafters = {2 * kMillisecond};
      model.draft_on_head = on_head;
      model.slowness.assign(model.stages.size() + (on_head ? 0 : 1), 1.0);
      model.text.top1 = model.text.top4 = 0.9;
      Scenario draft_heads = model;
      draft_heads.draft_heads = true;
      EXPECT_GT(time_of(draft_heads), time_of(model)) << on_head;
    }
  }
}

TEST(VirtualCluster, Interrupt_endsTheSimulation) {
  Scenario s = real(2, Strategy::kPipeInfer);
  const std::atomic<bool> interrupted{true};
  s.interrupted = &interrupted;
  EXPECT_THROW(simulate(s), Interrupted);
}

TEST(VirtualCluster, SlowerLinkOrMachineOrDraft_isSlower) {
  const Scenario s = real(4, Strategy::kIterative);
  Scenario latency = s, link = s, sleepy = s, head = s;
  latency.network.latency *= 20;
  link.network.bytes_per_s /= 100;
  sleepy.network.wake_up = kMillisecond;
  Scenario rank = s;
  rank.slowness[2] = 3;
  head.head *= 20;
  const Nanoseconds base = time_of(s);
  EXPECT_GT(time_of(latency), base);
  EXPECT_GT(time_of(link), base);
  EXPECT_EQ(time_of(rank), base + 63 * 12 * kMillisecond);
  EXPECT_GT(time_of(sleepy), base);
  EXPECT_GT(time_of(head), base);

  Scenario guessing = real(4, Strategy::kSpeculative);
  const Nanoseconds quick = time_of(guessing);
  guessing.drafters[0] *= 30;
  EXPECT_GT(time_of(guessing), quick);
}

/// A message to the last of five stages and one more to each before it, or a message to each.
TEST(VirtualCluster, CancelRoute_determinesHowSoonStagesKnow) {
  Scenario s = longer(real(5, Strategy::kPipeInfer));
  s.network = {kMillisecond, 1e18, 0};
  s.text.top1 = 0.5;
  const Outcome direct = simulate(s);
  s.decode.cancel_route = CancelRoute::kBackward;
  const Outcome backward = simulate(s);
  EXPECT_EQ(direct.tokens, backward.tokens);
  EXPECT_GT(direct.runs_skipped, 0u);
  EXPECT_NEAR(direct.cancel_latency_s, 1e-3, 2e-6);
  EXPECT_GT(backward.cancel_latency_s, 1.2e-3);
  EXPECT_LT(backward.cancel_latency_s, 4e-3);
  s.decode.cancel = false;
  const Outcome without = simulate(s);
  EXPECT_EQ(without.runs_skipped, 0u);
  EXPECT_EQ(without.cancel_latency_s, 0);
}

TEST(VirtualCluster, BetterDraft_isFaster) {
  Scenario s = real(6, Strategy::kPipeInfer);
  s.decode.generate = 100;
  s.text.top1 = 0.4;
  s.text.top4 = 0.6;
  const Nanoseconds poor = time_of(s);
  s.text.top1 = 0.9;
  s.text.top4 = 0.95;
  EXPECT_LT(time_of(s), poor);
}

/// Ten tokens repeatedly, with a prompt of 20; the text's token is the drafter's first choice, its second, or none.
Recording sing_song() {
  Recording r;
  for (std::int32_t i = 0; i < 20; ++i) r.prompt.push_back(1000 + 7 * (i % 10));
  for (std::int32_t i = 0; i < 64; ++i) {
    r.tokens.push_back(1000 + 7 * (i % 10));
    r.choices.push_back({{0.5f, 0.25f}, {}});
    if (i % 3 < 2) r.choices.back().accepted = i % 3;
    if (i % 5 == 4) r.choices.back() = {};
  }
  return r;
}

TEST(RecordedText, PathAndChoices_areThoseRecorded) {
  const Recording recording = sing_song();
  const RecordedText text(recording, {});
  const auto prompt = text.prompt(5);
  ASSERT_EQ(prompt.size(), recording.prompt.size());
  const auto all = text.continuation(prompt, 80);
  std::vector<float> logits(static_cast<std::size_t>(text.vocabulary()));
  std::vector<std::int32_t> before = prompt;
  for (std::size_t i = 0; i < recording.tokens.size(); ++i) {
    EXPECT_EQ(all[i], static_cast<std::int32_t>(i % 10));
    const std::uint64_t prefix = prefix_hash(before);
    EXPECT_EQ(text.next(prefix), all[i]);
    text.draft_logits(0, prefix, logits);
    const float truth = logits[static_cast<std::size_t>(all[i])];
    const auto above = std::count_if(logits.begin(), logits.end(), [&](float l) { return l > truth; });
    if (recording.choices[i].accepted) {
      EXPECT_EQ(above, static_cast<std::ptrdiff_t>(*recording.choices[i].accepted)) << i;
      EXPECT_FLOAT_EQ(std::exp(truth), above == 0 ? 0.5f : 0.25f) << i;
    } else if (!recording.choices[i].draft_probabilities.empty()) {
      EXPECT_GE(above, 2) << i;
    }
    before.push_back(all[i]);
  }
  EXPECT_NE(std::vector<std::int32_t>(all.begin() + 64, all.begin() + 74), std::vector<std::int32_t>(all.begin(), all.begin() + 10));
}

TEST(RecordedText, Drafter_saysElsewhereWhatItSaidSomewhere) {
  const RecordedText text(sing_song(), {});
  std::vector<float> logits(static_cast<std::size_t>(text.vocabulary()));
  int first = 0, second = 0;
  constexpr int kPrefixes = 3000;
  for (std::uint64_t i = 0; i < kPrefixes; ++i) {
    const std::uint64_t prefix = mix(i, 99);
    text.draft_logits(0, prefix, logits);
    const float truth = logits[static_cast<std::size_t>(text.next(prefix))];
    const auto above = std::count_if(logits.begin(), logits.end(), [&](float l) { return l > truth; });
    first += above == 0;
    second += above == 1;
    EXPECT_FLOAT_EQ(std::exp(*std::max_element(logits.begin(), logits.end())), 0.5f);
  }
  double told[3] = {};
  for (const auto& choices : sing_song().choices) {
    if (!choices.draft_probabilities.empty()) ++told[choices.accepted.value_or(2)];
  }
  const double all = told[0] + told[1] + told[2];
  EXPECT_NEAR(static_cast<double>(first) / kPrefixes, told[0] / all, 0.03);
  EXPECT_NEAR(static_cast<double>(second) / kPrefixes, told[1] / all, 0.03);
}

TEST(VirtualCluster, RecordedTextThatRepeatsItself_isGuessedFromItself) {
  Scenario s = real(4, Strategy::kPipeInfer);
  s.drafters.clear();
  s.slowness.pop_back();
  s.recording = sing_song();
  const Nanoseconds alone = time_of(s);
  s.decode.lookup = true;
  EXPECT_LT(2 * time_of(s), alone);
}

TEST(VirtualCluster, DraftersRows_costWhatTheyAreSaidTo) {
  Scenario s = real(2, Strategy::kSpeculative);
  const Nanoseconds cheap = time_of(s);
  s.draft_width = WidthCost({1000});  // the drafter's time per token of the prompt
  EXPECT_GT(time_of(s), cheap + 1900 * s.drafters[0]);
}

TEST(ExchangeCost, OfARun_isLatencyAndMessagesAndBytesOfItsRows) {
  Scenario s;
  s.layers = 32;
  s.exchange_bytes = 27'000;
  s.network = {.latency = 100'000, .bytes_per_s = 125e6, .wake_up = 1'000'000, .message = 10'000};
  EXPECT_EQ(exchange_cost(s, 1, 1).run, 0);
  EXPECT_EQ(exchange_cost(s, 2, 1).run, 32 * 4 * (100'000 + 2 * 10'000)) << "nobody sleeps in a exchange";
  EXPECT_EQ(exchange_cost(s, 8, 1).run, 32 * 4 * (100'000 + 14 * 10'000)) << "seven messages to send, seven to take";
  EXPECT_EQ(exchange_cost(s, 8, 4).run, exchange_cost(s, 8, 1).run / 4) << "a stage has a part of the layers";
  EXPECT_EQ(exchange_cost(s, 2, 1).row, 32 * 27'000 / 2 * 8) << "half of the bytes leave a member, 8 ns each";
  EXPECT_EQ(exchange_cost(s, 4, 1).row, 32 * 27'000 * 3 / 4 * 8);
}

}  // namespace
}  // namespace yamata::simulation
