// The strategy of a job without --strategy.
#include "launch/program/options/options.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"

namespace yamata {
namespace {

JobOptions job(std::size_t drafts, bool guesses_text) {
  JobOptions options;
  options.draft_models.assign(drafts, "draft.gguf");
  options.guesses_text = guesses_text;
  return options;
}

TEST(Strategy, WithoutADraft_textsAreGuessedFrom) {
  EXPECT_EQ(decided(job(0, true), 1).strategy, Strategy::kSpeculative);
  EXPECT_EQ(decided(job(0, true), 2).strategy, Strategy::kPipeInfer);
  EXPECT_EQ(decided(job(0, true), 8).strategy, Strategy::kPipeInfer);
  EXPECT_EQ(decided(job(0, false), 1).strategy, Strategy::kIterative);
  EXPECT_EQ(decided(job(0, false), 8).strategy, Strategy::kIterative);
}

TEST(Strategy, WithADraft_itGuessesToo_whereThereIsRoom) {
  for (const bool text : {false, true}) {
    EXPECT_EQ(decided(job(1, text), 1).strategy, Strategy::kSpeculative);
    EXPECT_EQ(decided(job(1, text), 1).draft_models.size(), 1u);
    EXPECT_EQ(decided(job(1, text), 2).strategy, Strategy::kPipeInfer);
    EXPECT_EQ(decided(job(2, text), 3).strategy, Strategy::kPipeInfer);
    EXPECT_EQ(decided(job(2, text), 3).draft_models.size(), 2u);
  }
}

TEST(Strategy, DraftsWithoutRoom_areLeftOut) {
  EXPECT_EQ(decided(job(2, true), 2).strategy, Strategy::kPipeInfer);
  EXPECT_EQ(decided(job(2, true), 1).strategy, Strategy::kSpeculative);
  EXPECT_EQ(decided(job(2, false), 2).strategy, Strategy::kIterative);
  for (const bool text : {false, true}) EXPECT_TRUE(decided(job(2, text), 2).draft_models.empty());
}

TEST(Strategy, OneThatWasAskedFor_stays) {
  JobOptions options = job(1, true);
  options.strategy = Strategy::kIterative;
  EXPECT_EQ(decided(options, 4).strategy, Strategy::kIterative);
  EXPECT_TRUE(decided(options, 4).draft_models.empty());
}

TEST(Strategy, SharesForADraftWithoutGuessing_areRefused) {
  JobOptions options = job(1, true);
  options.strategy = Strategy::kIterative;
  options.layer_split = LayerSplit::parse("0.5,0.5/1");
  EXPECT_THROW(decided(options, 3), UsageError);
  options.layer_split = LayerSplit::parse("0.5,0.3,0.2");
  EXPECT_EQ(decided(options, 3).layer_split.text, "0.5,0.3,0.2");
}

}  // namespace
}  // namespace yamata
