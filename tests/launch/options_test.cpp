// The strategy of a job without --strategy.
#include "launch/program/options/options.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"

namespace yamata {
namespace {

JobOptions job(std::size_t drafts, bool guesses_text) {
  JobOptions options;
  options.models.drafts.assign(drafts, "draft.gguf");
  options.layout.guesses_text = guesses_text;
  return options;
}

TEST(Strategy, WithoutADraft_textsAreGuessedFrom) {
  EXPECT_EQ(decided(job(0, true), 1).layout.strategy, Strategy::kSpeculative);
  EXPECT_EQ(decided(job(0, true), 2).layout.strategy, Strategy::kPipeInfer);
  EXPECT_EQ(decided(job(0, true), 8).layout.strategy, Strategy::kPipeInfer);
  EXPECT_EQ(decided(job(0, false), 1).layout.strategy, Strategy::kIterative);
  EXPECT_EQ(decided(job(0, false), 8).layout.strategy, Strategy::kIterative);
}

TEST(Strategy, WithADraft_itGuessesToo_whereThereIsRoom) {
  for (const bool text : {false, true}) {
    EXPECT_EQ(decided(job(1, text), 1).layout.strategy, Strategy::kSpeculative);
    EXPECT_EQ(decided(job(1, text), 1).models.drafts.size(), 1u);
    EXPECT_EQ(decided(job(1, text), 2).layout.strategy, Strategy::kPipeInfer);
    EXPECT_EQ(decided(job(2, text), 3).layout.strategy, Strategy::kPipeInfer);
    EXPECT_EQ(decided(job(2, text), 3).models.drafts.size(), 2u);
  }
}

TEST(Strategy, DraftsWithoutRoom_areLeftOut) {
  EXPECT_EQ(decided(job(2, true), 2).layout.strategy, Strategy::kPipeInfer);
  EXPECT_EQ(decided(job(2, true), 1).layout.strategy, Strategy::kSpeculative);
  EXPECT_EQ(decided(job(2, false), 2).layout.strategy, Strategy::kIterative);
  for (const bool text : {false, true}) EXPECT_TRUE(decided(job(2, text), 2).models.drafts.empty());
}

TEST(Strategy, OneThatWasAskedFor_stays) {
  JobOptions options = job(1, true);
  options.layout.strategy = Strategy::kIterative;
  EXPECT_EQ(decided(options, 4).layout.strategy, Strategy::kIterative);
  EXPECT_TRUE(decided(options, 4).models.drafts.empty());
}

TEST(Strategy, SharesForADraftWithoutGuessing_areRefused) {
  JobOptions options = job(1, true);
  options.layout.strategy = Strategy::kIterative;
  options.layout.split = LayerSplit::parse("0.5,0.5/1");
  EXPECT_THROW(decided(options, 3), UsageError);
  options.layout.split = LayerSplit::parse("0.5,0.3,0.2");
  EXPECT_EQ(decided(options, 3).layout.split.text, "0.5,0.3,0.2");
}

}  // namespace
}  // namespace yamata
