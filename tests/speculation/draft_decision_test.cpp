// When a draft that the text waits for is made, and what it has saved: every decision from numbers that can be worked out by hand.
#include "src/speculation/draft_decision.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "src/speculation/draft_balance.hpp"
#include "src/speculation/token_alone.hpp"

namespace yamata {
namespace {

TEST(DraftValue, Chain_savesWhatItsGuessesAreWorthLessItsTime) {
  const DraftTimes times{.first_s = 0.2, .next_s = 0.1, .row_s = 0.05, .token_s = 1, .alone_s = 1};
  EXPECT_NEAR(most_saved_s(times, {0.5}, 1), 0.5 - 0.05 - 0.2, 1e-12);
  // The second is worth .25 - .15, the third .125 - .15: it is left out.
  EXPECT_NEAR(most_saved_s(times, {0.5}, 8), 0.25 + 0.1, 1e-12);
  EXPECT_NEAR(least_expanded(times, {0.5}), 0.3, 1e-12);
}

TEST(DraftValue, WhatOthersHaveGuessed_isNotWorthGuessingAgain) {
  const DraftTimes times{.first_s = 0.2, .next_s = 0.1, .row_s = 0.05, .token_s = 1, .alone_s = 1};
  EXPECT_NEAR(most_saved_s(times, {.acceptance = 0.5, .open = 0.8}, 1), 0.4 - 0.05 - 0.2, 1e-12);
  EXPECT_EQ(most_saved_s(times, {.acceptance = 0.5, .open = 0.3}, 8), 0);
  EXPECT_NEAR(least_expanded(times, {.acceptance = 0.5, .open = 0.5}), 0.6, 1e-12);
}

TEST(DraftValue, FirstGuessThatTakesLong_isWorthItForThoseAfterIt) {
  const DraftTimes times{.first_s = 1.2, .next_s = 0.01, .row_s = 0.01, .token_s = 1, .alone_s = 1};
  EXPECT_EQ(most_saved_s(times, {0.9}, 1), 0);
  EXPECT_GT(most_saved_s(times, {0.9}, 8), 1);
}

TEST(DraftValue, DraftAsLargeAsItsTarget_neverSavesAnything) {
  for (const double acceptance : {0.0, 0.5, 1.0}) EXPECT_EQ(most_saved_s({1, 1, 0, 1, 1}, {acceptance}, 16), 0);
  EXPECT_TRUE(std::isinf(least_expanded({1, 1, 0, 1, 1}, {0})));
}

TEST(DraftDecision, AfterThePrompt_someIsDraftedUnlessTheModelIsTooLargeForTheHeadsUnit) {
  using Kind = DraftDecision::Kind;
  DraftCase draft{.after_prompt = true, .shares_unit = false, .relative_cost = 0.9, .rate = {0.7}, .times = {}};
  EXPECT_EQ(decide_draft(draft).kind, Kind::kDraft);
  draft.shares_unit = true;
  EXPECT_EQ(decide_draft(draft).kind, Kind::kLeave);
  draft.relative_cost = 0.2;
  EXPECT_EQ(decide_draft(draft).kind, Kind::kDraft);
  EXPECT_NEAR(decide_draft(draft).least, 0.3, 1e-6);
}

TEST(DraftDecision, Draft_isMadeWhereItPays_probedWhereNot_leftWhereNothingIsKnown) {
  using Kind = DraftDecision::Kind;
  DraftCase draft{.rate = {0.7}, .times = {.first_s = 0.1, .next_s = 0.1, .row_s = 0.04, .token_s = 1, .alone_s = 1}, .most = 8};
  EXPECT_EQ(decide_draft(draft).kind, Kind::kDraft);
  EXPECT_NEAR(decide_draft(draft).least, 0.2, 1e-6);
  draft.costs_more = true;
  EXPECT_EQ(decide_draft(draft).kind, Kind::kProbe);
  EXPECT_EQ(decide_draft(draft).least, 1);
  draft.costs_more = false;
  draft.times.first_s = draft.times.next_s = 0.8;
  EXPECT_EQ(decide_draft(draft).kind, Kind::kProbe);
  draft.times.next_s = 0;
  EXPECT_EQ(decide_draft(draft).kind, Kind::kLeave);
  draft.times = {.first_s = 0.1, .next_s = 0.1, .row_s = 0, .token_s = 0, .alone_s = 0};
  EXPECT_EQ(decide_draft(draft).kind, Kind::kLeave);
}

TEST(DraftValue, LuckOfLate_doesNotMakeADraftUseless) {
  // At the present rate a token takes .5 s, without the draft 1 s.
  EXPECT_NEAR(most_saved_s({.first_s = 0.6, .next_s = 0.6, .row_s = 0, .token_s = 0.5, .alone_s = 1}, {0.8}, 1), 0.2, 1e-12);
}

/// A step in which a token takes 1 s without any guesses, and the draft .6 s.
DraftStep step_of(int tokens, int own) { return {.tokens = tokens, .own = own, .seconds = 1.6, .cost_s = 0.6, .token_s = 1}; }

TEST(DraftBalance, StepsThatTakeLongerThanTheirTokens_areNoticedSoonAndForgotten) {
  DraftBalance balance;
  for (int step = 0; step < 2; ++step) balance.step(step_of(1, 0));
  EXPECT_FALSE(balance.costs_more()) << "a good draft is rejected at times";
  for (int step = 0; step < 3; ++step) balance.step(step_of(1, 0));
  EXPECT_TRUE(balance.costs_more());
  for (int step = 0; step < 3; ++step) balance.step(step_of(3, 2));
  EXPECT_FALSE(balance.costs_more());
}

/// Three tokens per step come from another source. In the time of the draft, it would have given 1.8 of them.
TEST(DraftBalance, TokensThatOthersGuessed_areNotItsOwn) {
  DraftBalance useless, useful;
  for (int step = 0; step < 5; ++step) useless.step(step_of(3, 0)), useful.step(step_of(6, 3));
  EXPECT_TRUE(useless.costs_more());
  EXPECT_FALSE(useful.costs_more());
  for (int step = 0; step < 5; ++step) useful.step(step_of(4, 1));
  EXPECT_FALSE(useful.costs_more());
  for (int step = 0; step < 5; ++step) useful.step(step_of(4, 1));
  EXPECT_TRUE(useful.costs_more()) << "a token in the time of 1.8";
}

/// Of `steps` steps, every other one has a guess that is right; the draft takes `cost` tokens' time in each.
void run(DraftBalance& balance, int steps, double cost) {
  for (int i = 0; i < steps; ++i) balance.step({.tokens = 1 + i % 2, .own = i % 2, .seconds = 1 + cost, .cost_s = cost, .token_s = 1});
}

TEST(DraftBalance, DraftThatLosesLittle_isNoticedInALongText_andLeftAloneFromTheBeginningOfTheNext) {
  DraftBalance loses, wins;
  run(loses, 10, 0.56), run(wins, 10, 0.44);
  EXPECT_FALSE(loses.costs_more()) << "it may be chance";
  run(loses, 200, 0.56), run(wins, 200, 0.44);
  EXPECT_TRUE(loses.costs_more());
  EXPECT_FALSE(wins.costs_more());
  DraftBalance later;
  later.begin_with(loses.experience());
  EXPECT_TRUE(later.is_tried());
  for (DraftBalance* balance : {&loses, &wins, &later}) balance->begin();
  EXPECT_TRUE(loses.costs_more());
  EXPECT_FALSE(wins.costs_more());
  EXPECT_TRUE(later.costs_more());
}

TEST(DraftBalance, TextThatSuitsADraft_bringsItBack_andOneThatDoesNotStopsItSoon) {
  DraftBalance usually_bad, usually_good;
  run(usually_bad, 400, 0.7), run(usually_good, 400, 0.1);
  usually_bad.begin(), usually_good.begin();
  ASSERT_TRUE(usually_bad.costs_more());
  for (int i = 0; i < 5; ++i) usually_bad.step({.tokens = 2, .own = 1, .seconds = 1.2, .cost_s = 0.2, .token_s = 1});
  EXPECT_FALSE(usually_bad.costs_more());
  for (int i = 0; i < 5; ++i) usually_good.step(step_of(1, 0));
  EXPECT_TRUE(usually_good.costs_more()) << "its credit of two tokens is spent";
}

TEST(DraftBalance, BadExperienceOfEarlierJobs_isOutweighedBySomeGoodSteps) {
  DraftBalance earlier, later;
  run(earlier, 400, 0.7);
  later.begin_with(earlier.experience());
  ASSERT_TRUE(later.costs_more());
  run(later, 80, 0.1);
  later.begin();
  EXPECT_FALSE(later.costs_more());
}

/// As after a text that another source copies: the draft's time is worth many tokens there.
TEST(DraftBalance, AFewBadSteps_sayLittleAboutTheNextText) {
  DraftBalance balance;
  for (int i = 0; i < 10; ++i) balance.step({.tokens = 2, .own = 0, .seconds = 1.2, .cost_s = 0.2, .token_s = 1});
  ASSERT_TRUE(balance.costs_more());
  balance.begin();
  EXPECT_FALSE(balance.costs_more());
}

DraftStep step(int tokens, double seconds) {
  return {.tokens = tokens, .own = tokens - 1, .seconds = seconds, .cost_s = seconds - 1, .token_s = 1};
}

TEST(DraftTurns, EachIsTried_thenTheFastestGuesses_andTheOthersAgainNowAndThen) {
  const double speeds[] = {1.5, 1.9, 0.9};  // the last costs more than it saves
  std::array<DraftBalance, 3> drafts;
  const std::array<const DraftBalance*, 3> all{&drafts[0], &drafts[1], &drafts[2]};
  std::array<int, 3> turns{};
  for (int i = 0; i < 1000; ++i) {
    const std::size_t turn = whose_turn(all);
    ++turns[turn];
    for (std::size_t d = 0; d < drafts.size(); ++d) d == turn ? drafts[d].step(step(2, 2 / speeds[d])) : drafts[d].step_of_another();
    if (i == 20) {
      EXPECT_GE(*std::ranges::min_element(turns), 3) << "each was tried";
    }
  }
  EXPECT_GT(turns[1], 950);
  EXPECT_GT(turns[0], 10);
  EXPECT_GE(turns[2], 10);
}

TEST(DraftTurns, OneThatCostsMoreThanItSaves_guessesOnlyWhereAllDo) {
  DraftBalance bad, worse;
  for (int i = 0; i < 8; ++i) bad.step(step(1, 1.5)), worse.step(step(1, 2));
  const DraftBalance untried;
  EXPECT_EQ(whose_turn(std::vector<const DraftBalance*>{&bad, &worse, &untried}), 2u);
  EXPECT_EQ(whose_turn(std::vector<const DraftBalance*>{&worse, &bad}), 1u);
}

TEST(DraftTurns, OneThatIsNotWorthATrial_letsTheOthersGuess) {
  DraftBalance bad, good;
  for (int i = 0; i < 8; ++i) bad.step(step(1, 2)), good.step(step(2, 1.2));
  const std::array<const DraftBalance*, 2> both{&bad, &good};
  int passes = 0;
  for (int i = 0; i < 1000; ++i) {
    if (whose_turn(both) == 1) {
      good.step(step(2, 1.2)), bad.step_of_another();
    } else {
      bad.step_not_asked(), good.step_of_another(), ++passes;
    }
  }
  EXPECT_GT(passes, 2);
  EXPECT_LT(passes, 30);
}

TEST(TokenAlone, IsMeasuredEverMoreRarely_andNotWhereCachesAreFilled) {
  TokenAlone alone;
  std::vector<int> due;
  for (int step = 1; step < 300; ++step) {
    if (alone.due(false)) due.push_back(step);
    alone.step_ended(step < 8 ? 4 : 2, alone.due(false));
    if (step == 7) {
      EXPECT_EQ(alone.token_s(), 0);
    }
    if (step == 8) {
      EXPECT_EQ(alone.token_s(), 2);
    }
  }
  EXPECT_EQ(due, (std::vector<int>{1, 8, 16, 32, 64, 128, 256}));
  EXPECT_EQ(alone.token_s(), 2);
  alone.step_ended(50, true);
  EXPECT_EQ(alone.token_s(), 2) << "one disturbed step";
  for (int step = 0; step < 3; ++step) alone.step_ended(3, true);
  EXPECT_EQ(alone.token_s(), 3) << "the machine has become slower";
}

TEST(TokenAlone, IsMeasuredRarely_whereGuessesClearlySave) {
  TokenAlone alone;
  std::vector<int> due;
  for (int step = 1; step < 300; ++step) {
    if (alone.due(true)) due.push_back(step);
    alone.step_ended(2, alone.due(true));
  }
  EXPECT_EQ(due, (std::vector<int>{8, 136, 264}));
}

TEST(ProbeBudget, Probes_takeAHundredthOfTheTime) {
  std::int64_t ns = 0;
  const Clock::Override clock(ns);
  ProbeBudget probes;
  int made = 0;
  for (int step = 0; step < 1000; ++step, ns += 100'000'000) made += probes.spend(0.25);
  EXPECT_EQ(made, 3);  // 99.9 s: not quite four times .25 s
}

}  // namespace
}  // namespace yamata
