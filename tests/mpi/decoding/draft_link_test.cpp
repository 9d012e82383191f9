// The head's end of the link to a drafter: what it sends, which guesses it accepts, and the statistics of acceptance.
#include "mpi/decoding/draft_link.hpp"

#include <gtest/gtest.h>

#include "mpi/decoding/guess_sources.hpp"
#include "mpi/transport/local_transport.hpp"
#include "node/clock.hpp"

namespace yamata {
namespace {

using Ids = std::vector<std::int32_t>;

class DraftLinkTest : public testing::Test {
 protected:
  DraftLinkTest() : network_(2), head_(network_, 0), drafter_(network_, 1), tree_(7, 0), text_{7}, link_(head_, 0, {.rank = 1}, {}, 0.25) {
    link_.begin(kRequest);
  }

  /// The text has grown: returns the message to the drafter.
  std::optional<wire::Commit> ask() { return ask({.most = 8, .min_drafts = 8}); }
  std::optional<wire::Commit> ask(GuessDemand demand) {
    demand.epoch = ++epoch_;
    EXPECT_FALSE(link_.guess(tree_, text_, demand)) << "guesses come later";
    return told();
  }
  std::optional<wire::Commit> told() {
    const auto message = drafter_.receive();
    if (!message) return std::nullopt;
    EXPECT_EQ(message->tag, Tag::kCommit);
    return wire::decode_commit(message->bytes);
  }
  /// Guesses below the drafter's id `root`, which stands for the text's last token.
  bool take(std::uint32_t root, std::int32_t position, std::vector<wire::Guess> guesses, bool complete = true) {
    const wire::Guesses message{
        .request = kRequest, .epoch = epoch_, .root = root, .root_position = position, .complete = complete, .guesses = std::move(guesses)};
    return link_.on_guesses(message, tree_, text_, {.epoch = epoch_, .most = 8, .min_drafts = 8});
  }
  void commit(std::int32_t token) {
    link_.learn(tree_, token);
    tree_.advance(token);
    text_.push_back(token);
  }

  static constexpr std::uint64_t kRequest = 5;
  LocalNetwork network_;
  LocalTransport head_, drafter_;
  TokenTree tree_;
  Ids text_;
  DraftLink link_;
  std::uint64_t epoch_ = 0;
};

TEST_F(DraftLinkTest, Text_isToldOnce) {
  const auto commit_of_prompt = ask();
  ASSERT_TRUE(commit_of_prompt);
  EXPECT_EQ(commit_of_prompt->request, kRequest);
  EXPECT_EQ(commit_of_prompt->tokens, Ids{7});
  EXPECT_EQ(commit_of_prompt->min_path_probability, 0);
  EXPECT_EQ(commit_of_prompt->min_drafts, 8);
  EXPECT_TRUE(link_.pending());
  EXPECT_FALSE(ask());
  EXPECT_FALSE(link_.pending()) << "it was not asked anew";
  commit(3);
  const auto next = ask();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->position, 1);
  EXPECT_EQ(next->tokens, Ids{3});
}

TEST_F(DraftLinkTest, EndOfAText_isToldOnce_ifTheTextWasTold) {
  link_.end();
  EXPECT_FALSE(told()) << "the drafter does not know it";
  ask();
  commit(3);
  link_.end();
  const auto end = told();
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->ended);
  EXPECT_EQ(end->request, kRequest);
  EXPECT_EQ(end->position, 1) << "so many tokens are known to it";
  EXPECT_TRUE(end->tokens.empty());
  link_.end();
  EXPECT_FALSE(told());
  link_.begin(kRequest + 1);
  ask();
  link_.drop();
  link_.end();
  EXPECT_FALSE(told()) << "it is lost";
}

TEST_F(DraftLinkTest, GuessesBelowWhatBecameText_areKept_othersDropped) {
  ask();
  commit(3);
  // About the text before 3: the guess 3, which was accepted, and 4, which was not.
  EXPECT_FALSE(take(10, 0, {{11, 10, 3, 0.9f}, {12, 10, 4, 0.1f}}));
  EXPECT_FALSE(link_.pending());
  EXPECT_TRUE(take(10, 0, {{13, 11, 5, 0.8f}, {14, 12, 6, 0.8f}}));
  EXPECT_NE(tree_.child(tree_.root().id, 5), kNoNode);
  EXPECT_EQ(tree_.guesses(), 1u);
}

TEST_F(DraftLinkTest, AnotherRequest_isToldFromItsBeginning_andGuessesOfTheOneBeforeAreIgnored) {
  ask();
  commit(3);
  ask();
  link_.begin(9);
  epoch_ = 0;
  const auto begun = ask();
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->request, 9u);
  EXPECT_EQ(begun->position, 0);
  EXPECT_EQ(begun->tokens, (Ids{7, 3}));
  EXPECT_FALSE(take(10, 1, {{11, 10, 4, 0.9f}})) << "they are of the request before";
  EXPECT_TRUE(link_.pending());
  EXPECT_TRUE(link_.on_guesses({.request = 9, .epoch = 1, .root = 10, .root_position = 1, .complete = true, .guesses = {{11, 10, 4, 0.9f}}},
                               tree_, text_, {.epoch = 1}));
  EXPECT_FALSE(link_.pending());
}

TEST_F(DraftLinkTest, HeadsThatWereNotYetAsked_haveMissedNothing) {
  DraftLink draft_heads(head_, 1, {.rank = 1, .model = 2, .feature_layers = {kOutputFeatures}}, {}, 0.25);
  const double before = draft_heads.expected_acceptance();
  for (const std::uint64_t request : {6, 7}) {
    draft_heads.begin(request);
    draft_heads.guess(tree_, text_, {.epoch = 1, .most = 8, .min_drafts = 8});
    draft_heads.learn(tree_, 3);
  }
  EXPECT_EQ(draft_heads.expected_acceptance(), before);
}

TEST_F(DraftLinkTest, DraftThatDoesNotAnswer_isToldNoMore_untilItDoes) {
  int told = 0;
  for (int i = 0; i < 100; ++i) {
    told += ask().has_value();
    commit(i);
  }
  EXPECT_EQ(told, 16);
  ASSERT_FALSE(this->told());
  take(10, 100, {});
  const auto rest = this->told();
  ASSERT_TRUE(rest) << "its answer is followed by all that it has missed";
  EXPECT_EQ(rest->position, 16);
  EXPECT_EQ(rest->tokens.size(), text_.size() - 16);
}

TEST_F(DraftLinkTest, HiddenStatesThatGoToAnotherRank_areCounted) {
  DraftLink far(head_, 1, {.rank = 1, .model = 2, .feature_layers = {kOutputFeatures}}, {}, 0.25),
      here(head_, 2, {.rank = 0, .model = 3, .feature_layers = {kOutputFeatures}}, {}, 0.25);
  const std::vector<float> state(6, 0.5f);
  for (DraftLink* link : {&far, &here}) {
    link->begin(kRequest);
    text_ = {7, 8, 9};
    for (std::int32_t position = 0; position < 2; ++position) link->take_features(position, state);
    EXPECT_EQ(link->feature_bytes(), 0u) << "nothing is sent yet";
    link->guess(tree_, text_, {.epoch = 1, .most = 8, .min_drafts = 8});
  }
  EXPECT_EQ(far.feature_bytes(), 2 * 6 * sizeof(float));
  EXPECT_EQ(here.feature_bytes(), 0u);
  const auto commit = told();
  ASSERT_TRUE(commit);
  EXPECT_EQ(commit->features.size() * sizeof(float), far.feature_bytes());
  far.begin(kRequest + 1);
  EXPECT_EQ(far.feature_bytes(), 0u);
}

TEST_F(DraftLinkTest, DraftThatWasLeftAloneForLong_isAskedAgain) {
  ask();
  take(10, 0, {});
  for (int i = 0; i < 40; ++i) {
    commit(i);
    EXPECT_FALSE(ask({.most = 8, .min_drafts = 8, .until_complete = true, .suspended = true}));
    EXPECT_FALSE(link_.pending());
  }
  commit(3);
  const auto commit = ask();
  ASSERT_TRUE(commit) << "it owes no answer";
  EXPECT_EQ(commit->tokens.size(), 41u);
}

TEST_F(DraftLinkTest, LostDrafter_isToldNothing_andItsGuessesAreIgnored) {
  ask();
  link_.drop();
  EXPECT_FALSE(link_.pending());
  EXPECT_FALSE(take(10, 0, {{11, 10, 3, 0.9f}}));
  commit(3);
  EXPECT_FALSE(ask());
  EXPECT_FALSE(link_.next_guess());
  link_.begin(6);
  EXPECT_FALSE(ask()) << "in the next text neither";
}

TEST_F(DraftLinkTest, DraftersVocabulary_isItsOwn) {
  DraftLink link(head_, 0, {.rank = 1}, VocabularyMap::between({"a", "b", "c"}, {"c", "b", "a"}), 0);
  link.begin(kRequest);
  TokenTree tree(2, 0);
  const Ids text{2};
  link.guess(tree, text, {.epoch = 1});
  EXPECT_EQ(told()->tokens, Ids{0});
  link.on_guesses({.request = kRequest, .epoch = 1, .root = 4, .root_position = 0, .guesses = {{5, 4, 2, 0.9f}}}, tree, text, {.epoch = 1});
  EXPECT_NE(tree.child(tree.root().id, 0), kNoNode);
}

TEST_F(DraftLinkTest, GuessOutsideTheTargetsVocabulary_isDroppedWithThoseBelowIt) {
  DraftLink link(head_, 0, {.rank = 1}, VocabularyMap::between({"a", "b"}, {"a", "b", "pad"}), 0);
  link.begin(kRequest);
  TokenTree tree(1, 0);
  const Ids text{1};
  link.guess(tree, text, {.epoch = 1});
  const std::vector<wire::Guess> guesses{{5, 4, 2, 0.9f}, {6, 5, 0, 0.9f}, {7, 4, 0, 0.1f}};
  EXPECT_TRUE(
      link.on_guesses({.request = kRequest, .epoch = 1, .root = 4, .root_position = 0, .guesses = guesses}, tree, text, {.epoch = 1}));
  EXPECT_EQ(tree.guesses(), 1u);
  EXPECT_NE(tree.child(tree.root().id, 0), kNoNode);
}

TEST_F(DraftLinkTest, GuessesAreExpected_whenTheyUseToCome_untilTheDraftIsComplete) {
  std::int64_t ns = 1'000'000'000;
  const Clock::Override clock(ns);
  std::uint32_t root = 10;
  const auto text_grows = [&] {
    link_.step_ended({.tokens = 1, .first = epoch_ < 2});
    ask();
  };
  text_grows();
  EXPECT_FALSE(link_.next_guess()) << "nothing is known";
  for (int step = 0; step < 2; ++step, root += 10) {
    ns += 40'000'000;
    take(root, static_cast<std::int32_t>(text_.size()) - 1, {{root + 1, root, 3, 0.9f}}, false);
    commit(4);
    text_grows();
  }
  const auto expected = link_.next_guess();
  ASSERT_TRUE(expected);
  EXPECT_NEAR(expected->first_s, 0.040, 1e-9);
  ns += 121'000'000;
  EXPECT_FALSE(link_.next_guess()) << "it may be dead";
  take(root, static_cast<std::int32_t>(text_.size()) - 1, {{root + 1, root, 3, 0.9f}}, false);
  EXPECT_FALSE(link_.next_guess()) << "of guesses that follow guesses nothing is known";
  commit(4);
  text_grows();
  EXPECT_TRUE(link_.next_guess());
  take(root + 10, static_cast<std::int32_t>(text_.size()) - 1, {}, true);
  EXPECT_FALSE(link_.next_guess());
}

TEST_F(DraftLinkTest, DraftWaitedForToItsEnd_isAskedOnlyWhereItPays) {
  const auto demand = [](double token_s) {
    return GuessDemand{.most = 8, .min_drafts = 8, .until_complete = true, .token_s = token_s, .alone_s = token_s};
  };
  const auto prompt = ask(demand(0));
  ASSERT_TRUE(prompt) << "another rank's draft reads the prompt in any case";
  EXPECT_GT(prompt->min_path_probability, 0.1f);
  link_.on_guesses({.request = kRequest, .epoch = 1, .root = 10, .complete = true, .evaluation_s = 0.02, .guesses = {}}, tree_, text_,
                   demand(0.4));
  EXPECT_FALSE(told()) << "it knows all";
  commit(3);
  const auto cheap = ask(demand(0.4));
  ASSERT_TRUE(cheap);
  EXPECT_NEAR(cheap->min_path_probability, 0.02 / (0.7 * 0.4), 1e-3);
  commit(3);
  EXPECT_FALSE(ask(demand(0.01))) << "two evaluations take as long as four tokens";
  EXPECT_FALSE(link_.pending());
}

TEST_F(DraftLinkTest, Acceptance_countsOnlyGuessesThatWereSentAndNobodyElseHad) {
  const auto rate_after = [&](bool sent, bool alone) {
    DraftLink link(head_, 0, {.rank = 1}, {}, 0);
    link.begin(kRequest);
    TokenTree tree(7, 0);
    Ids text{7};
    for (std::uint64_t epoch = 2; epoch < 40; ++epoch) {
      const GuessDemand demand{.epoch = epoch, .most = 8};
      const auto root = static_cast<std::uint32_t>(2 * epoch);
      link.guess(tree, text, demand);
      link.on_guesses({.request = kRequest,
                       .epoch = epoch,
                       .root = root,
                       .root_position = static_cast<std::int32_t>(text.size()) - 1,
                       .complete = true,
                       .guesses = {{root + 1, root, 3, 0.9f}}},
                      tree, text, demand);
      const NodeId child = tree.child(tree.root().id, 3);
      tree.at(child).sent = sent;
      if (!alone) tree.add(tree.root().id, 3, 0.5f, {1, 0.5f});
      link.learn(tree, 3);
      tree.advance(3);
      text.push_back(3);
    }
    return link.expected_acceptance();
  };
  EXPECT_GT(rate_after(true, true), 0.9);
  EXPECT_LT(rate_after(false, true), 0.2);
  EXPECT_LT(rate_after(true, false), 0.2);
}

TEST_F(DraftLinkTest, EvaluationsTime_isEstimatedFromTheModelsSizesUntilItIsMeasured) {
  ask();
  EXPECT_DOUBLE_EQ(link_.evaluation_s(0.4), 0.1);
  link_.on_guesses({.request = kRequest, .epoch = 1, .root = 1, .complete = true, .evaluation_s = 0.02, .guesses = {}}, tree_, text_, {});
  EXPECT_DOUBLE_EQ(link_.evaluation_s(0.4), 0.02);
  link_.on_guesses({.request = kRequest, .epoch = 1, .root = 1, .complete = true, .evaluation_s = 0.03, .guesses = {}}, tree_, text_, {});
  EXPECT_DOUBLE_EQ(link_.guess_s().value(), 0.03) << "as measured last";
}

TEST_F(DraftLinkTest, DraftOnThisRank_sharesItsUnit_unlessItHasOneOfItsOwn) {
  EXPECT_FALSE(link_.shares_unit()) << "it is on another rank";
  EXPECT_TRUE(DraftLink(head_, 0, {.rank = 0}, {}, 0.25).shares_unit());
  EXPECT_FALSE(DraftLink(head_, 0, {.rank = 0, .own_unit = true}, {}, 0.25).shares_unit());
}

TEST(GuessSources, SourcesForAnotherText_areAllButDraftsOfOneText) {
  LocalNetwork network(3);
  LocalTransport head(network, 0);
  GuessSources sources(head);
  sources.add_drafter({.rank = 0, .model = 1}, {}, 0.1);
  sources.add_drafter({.rank = 1, .model = 2, .one_text = true}, {}, 0.1);
  sources.add_drafter({.rank = 2, .model = 3}, {}, 0.1);
  sources.add_suffixes();
  for (const GuessSources& others : {sources.for_another_text(), sources.for_another_text().for_another_text()}) {
    ASSERT_EQ(others.drafters().size(), 1u);
    EXPECT_EQ(others.drafters()[0]->model(), 3);
    EXPECT_EQ(others.all().size(), 2u);
    EXPECT_TRUE(others.has_suffixes());
  }
}

TEST(GuessSources, DraftOnThisRank_takesTurnsWithNone_whereOtherRanksDraft) {
  LocalNetwork network(2);
  LocalTransport head(network, 0);
  GuessSources sources(head);
  sources.add_drafter({.rank = 0, .model = 1}, {}, 0.1);
  EXPECT_FALSE(sources.whose_turn()) << "there is no choice";
  sources.add_drafter({.rank = 1, .model = 2}, {}, 0.1);
  DraftLink* const here = sources.drafters()[0];
  const auto steps = [&](double tokens_per_s, bool drafted_here) {
    for (int i = 0; i < 24; ++i) sources.step_ended({.tokens = 2, .seconds = 2 / tokens_per_s, .alone_s = 2}, drafted_here);
  };
  Ids text;
  const auto ask = [&](bool suspended) {
    text.push_back(3);
    TokenTree tree(3, static_cast<std::int32_t>(text.size()) - 1);
    here->guess(tree, text,
                {.epoch = text.size(), .most = 8, .min_drafts = 8, .until_complete = true, .suspended = suspended, .at_any_cost = true});
  };
  here->begin(5);
  ask(true);
  EXPECT_EQ(sources.whose_turn(), std::optional<const DraftLink*>(nullptr)) << "without one first";
  steps(2, false);
  EXPECT_EQ(sources.whose_turn(), here);
  ask(false);
  ask(false);
  steps(1.5, true);
  EXPECT_EQ(sources.whose_turn(), std::optional<const DraftLink*>(nullptr)) << "faster without";
  ask(true);
  for (int i = 0; i < 4; ++i) steps(1.1, false);
  EXPECT_EQ(sources.whose_turn(), here) << "no longer";
  int turns = 0;
  for (; turns < 1000 && sources.whose_turn() == here; ++turns) {
    ask(false);
    sources.step_ended({.tokens = 4, .seconds = 1, .alone_s = 1}, true);
  }
  EXPECT_GT(turns, 200) << "it is the fastest by far";
  EXPECT_LT(turns, 1000) << "but without one is tried again";
  sources.drop(1);
  EXPECT_FALSE(sources.whose_turn());
}

}  // namespace
}  // namespace yamata
