// A single drafter: the nodes that it expands, depending on the acceptance of its guesses.
#include "mpi/decoding/drafter.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "mpi/transport/local_transport.hpp"
#include "node/error.hpp"
#include "src/simulation/table_model.hpp"
#include "tests/mpi/instant_unit.hpp"

namespace yamata {
namespace {

constexpr std::int32_t kCells = 256, kSequences = 65, kContext = 200;

/// A drafter on rank 1 that always gives the tokens 0, 1 and 2 the probabilities .8, .15 and .05; the test plays rank 0.
class DrafterTest : public testing::Test {
 protected:
  explicit DrafterTest(const DraftOptions& options = {.width = 1, .children = 3, .credit = 12})
      : network_(2), head_(network_, 0), transport_(network_, 1) {
    simulation::TableShape shape;
    shape.cells = kCells, shape.sequences = kSequences, shape.vocabulary = 3;
    shape.logits = [](std::uint64_t, std::span<float> logits) {
      logits[0] = std::log(0.8f), logits[1] = std::log(0.15f), logits[2] = std::log(0.05f);
    };
    auto pipeline = std::make_unique<Pipeline>(transport_, PipelineRanks{kDraftChannel, {{1}}},
                                               std::make_unique<simulation::TableModel>(shape, unit_), kCells, kSequences);
    pipeline->stage().load();
    drafter_ = std::make_unique<Drafter>(transport_, std::move(pipeline), Drafting{.options = options, .context = kContext},
                                         Drafter::Sequences{.texts = {{0, kSequences}}});
  }

  void commit(std::vector<std::int32_t> tokens, float least = 0, std::int32_t min_drafts = 0) {
    const auto count = static_cast<std::int32_t>(tokens.size());
    drafter_->on_commit({request_, ++epoch_, position_, std::move(tokens), min_drafts, least});
    reach_of_complete_ = 0;
    position_ += count;
    while (step()) {
    }
    while (auto message = head_.receive()) {
      const wire::Guesses told = wire::decode_guesses(message->bytes);
      told_request_ = told.request;
      root_ = told.root;
      for (const wire::Guess& guess : told.guesses) guesses_[{guess.parent, guess.token}] = guess.id;
      if (told.complete && reach_of_complete_ == 0) reach_of_complete_ = reach(0);
    }
  }
  /// Another request's text begins.
  void begin_text() {
    drafter_->on_commit({.request = request_, .position = position_, .ended = true});
    ++request_;
    epoch_ = 0;
    position_ = 0;
    guesses_.clear();
  }
  void skip(std::int32_t tokens) { position_ += tokens; }
  bool step() {
    const bool began = drafter_->advance();
    const bool advanced = drafter_->advance() || began;  // messages that it sends during the evaluation
    auto message = transport_.receive();                 // the results of its only stage
    if (message) drafter_->pipeline().on_message(std::move(*message));
    return advanced || message;
  }
  /// reach(0) at the time of its message that it is complete.
  int reach_of_complete() const { return reach_of_complete_; }
  std::uint64_t told_request() const { return told_request_; }
  /// Evaluations of the draft so far: all runs except the loading.
  std::uint64_t evaluations() const { return unit_.progress() - 1; }
  /// The length of its chain of guesses if the text repeats this token.
  int reach(std::int32_t token) const {
    int depth = 0;
    for (auto at = guesses_.find({root_, token}); at != guesses_.end(); at = guesses_.find({at->second, token})) ++depth;
    return depth;
  }

 private:
  LocalNetwork network_;
  LocalTransport head_, transport_;
  test::InstantUnit unit_;
  std::unique_ptr<Drafter> drafter_;
  std::uint64_t request_ = 1, epoch_ = 0, told_request_ = 0;
  std::int32_t position_ = 0;
  std::uint32_t root_ = 0;
  int reach_of_complete_ = 0;
  std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> guesses_;  // parent and token -> id
};

TEST_F(DrafterTest, FirstChoices_areExpandedBeforeAnythingIsKnown) {
  commit({2, 2});
  EXPECT_EQ(reach(0), 4);
  EXPECT_EQ(reach(1), 1);
}

TEST_F(DrafterTest, SecondChoicesThatComeTrue_areExpandedInstead) {
  commit({2, 2});
  for (int i = 0; i < 60; ++i) commit({1});
  EXPECT_GE(reach(1), 4);
  EXPECT_LE(reach(0), 1);
}

TEST_F(DrafterTest, NodesLessProbableThanWhatIsWorthAnEvaluation_areNotExpanded) {
  commit({2, 2}, 0.7f);
  EXPECT_EQ(reach(0), 2);  // the root and the node with .8, not the one with .64
  commit({0}, 1);
  EXPECT_EQ(reach(0), 1) << "the root is always expanded";
}

TEST_F(DrafterTest, WhatFollowsANodeUnderWay_mayBelongToTheGuessesThatAreWaitedFor) {
  commit({2, 2}, 0, 2);
  EXPECT_EQ(reach_of_complete(), 2) << ".8 and .64, not .8 and .15";
  commit({0, 0}, 0, 4);
  EXPECT_EQ(reach_of_complete(), 4) << ".8, .64, .51 and .41";
}

/// PipeInfer's chain.
class ChainDrafterTest : public DrafterTest {
 protected:
  ChainDrafterTest()
      : DrafterTest({.width = 1, .children = 2, .credit = 12, .threshold = 0, .branches = 2, .accept = 0.9f, .split = 0.1f}) {}
};

TEST_F(ChainDrafterTest, FirstChoices_areExpanded_andFurtherOnesAboveTheSplit) {
  commit({2, 2});
  EXPECT_GE(reach(0), 4);
  EXPECT_GE(reach(1), 1) << ".15";
}

TEST_F(ChainDrafterTest, CutOff_endsADraftThatIsWaitedFor) {
  commit({2, 2}, 0, 6);
  EXPECT_EQ(reach_of_complete(), 1) << "the first choice is below the cut-off, so nothing is drafted after it";
  EXPECT_EQ(evaluations(), 1u);
}

TEST_F(DrafterTest, TextThatWasAccepted_isReadInTheEvaluationOfTheRoot) {
  commit({2, 2}, 1);
  EXPECT_EQ(evaluations(), 1u);
  commit({0, 1, 2, 0}, 1);
  EXPECT_EQ(evaluations(), 2u);
  commit(std::vector<std::int32_t>(40, 1), 1);
  EXPECT_EQ(evaluations(), 4u) << "a longer one has a run of its own, as prompts have";
  EXPECT_EQ(reach(0), 1);
}

TEST_F(DrafterTest, AnotherRequest_beginsAnewInAnEmptyCache) {
  // Each uses most of the cache: a second one would not fit.
  for (std::uint64_t request = 1; request <= 4; ++request) {
    commit(std::vector<std::int32_t>(150, 1));
    EXPECT_EQ(told_request(), request);
    EXPECT_EQ(reach(0), 4) << request;
    commit({0, 0});
    EXPECT_GE(reach(0), 3) << request;
    begin_text();
  }
}

/// DuoDecoding's sequences: always two of them, or as many as their probabilities say (one: .8 · .8 is above .15).
class SequenceDrafterTest : public DrafterTest, public testing::WithParamInterface<bool> {
 protected:
  SequenceDrafterTest()
      : DrafterTest({.width = 1, .children = 3, .credit = 24, .sequences = GetParam() ? 2 : 3, .fixed_sequences = GetParam()}) {}
};

TEST_P(SequenceDrafterTest, Budget_isSharedByTheSequences_whichBeginWhereTheVerifiedOneEnds) {
  const bool two = GetParam();
  commit({2, 2}, 0, 1);
  EXPECT_EQ(reach(0), 1) << "while the prompt is computed";
  EXPECT_EQ(evaluations(), 1u);
  commit({0}, 0, 6);
  EXPECT_EQ(reach(0), two ? 3 : 6);
  EXPECT_EQ(reach(1), 1) << "the first token of another sequence";
  EXPECT_EQ(evaluations(), two ? 6u : 7u) << "a sequence's last guess is not expanded, nor is the root for each of them";
  commit({0}, 0, 6);
  EXPECT_EQ(reach(0), two ? 5 : 11) << "below the rest of the first sequence";
  commit({1}, 0, 4);
  EXPECT_EQ(reach(0), two ? 2 : 4) << "nothing was drafted after it, so they begin at the root";
  commit({0, 0}, 0, 5);
  EXPECT_EQ(reach_of_complete(), two ? 2 : 7);
}

/// Two sequences of four guesses each, but cells for three guesses that are followed.
class FewCellsDrafterTest : public DrafterTest {
 protected:
  FewCellsDrafterTest() : DrafterTest({.width = 1, .children = 3, .credit = 3, .sequences = 2, .fixed_sequences = true}) {}
};

TEST_F(FewCellsDrafterTest, Sequences_growByTurns) {
  commit({2, 2}, 0, 8);
  EXPECT_EQ(reach(0), 3) << "two of the three guesses";
}

INSTANTIATE_TEST_SUITE_P(FixedOrNot, SequenceDrafterTest, testing::Bool());

class ShapedDrafterTest : public DrafterTest {
 protected:
  ShapedDrafterTest() : DrafterTest({.width = 1, .children = 2, .credit = 12, .threshold = 0.1f, .shape = third_choices()}) {}
  /// Third choices, three levels deep.
  static StaticTree third_choices() { return {{{}, {0, 0, 2}, {1, 1, 2}, {2, 2, 2}}}; }
};

TEST_F(ShapedDrafterTest, PlacesOfAShape_areFilledHoweverImprobable) {
  commit({2, 2}, 1);
  EXPECT_EQ(reach(2), 3);
  EXPECT_EQ(evaluations(), 3u) << "of the root and of the two third choices that are followed";
  EXPECT_EQ(reach(0), 1);
  commit({2}, 1);
  EXPECT_EQ(reach(2), 3) << "and from the next token on as well";
}

TEST_F(DrafterTest, TextThatDoesNotFollow_isRefused) {
  commit({2, 2});
  begin_text();
  skip(1);
  EXPECT_THROW(commit({1}), ClusterError);
}

}  // namespace
}  // namespace yamata
