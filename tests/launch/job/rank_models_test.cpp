// Which models each rank opens.
#include "launch/program/job/rank_models.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::test {
namespace {

ModelFiles files() {
  ModelFiles files;
  files.target = source_path("/models/tales-target-q8_0.gguf");
  files.drafts = {source_path("/models/tales-draft-q8_0.gguf")};
  return files;
}

JobLayout layout(const std::string& split) {
  LayoutOptions options;
  options.split = LayerSplit::parse(split);
  return {options, {.ranks = 3, .drafts = 1}, std::nullopt};
}

RankModels opened(const ModelFiles& files, const std::string& split, int rank) {
  RankModels models(files);
  models.open(layout(split), rank, {});
  return models;
}

TEST(RankModels, Head_opensAll) {
  const RankModels models = opened(files(), "bytes", 0);
  EXPECT_EQ(models.own(), 0u);
  EXPECT_EQ(models.transformers().size(), 2u);
  EXPECT_LT(models.relative_cost(1), 1);
  EXPECT_EQ(models.relative_cost(0), 1);
  EXPECT_FALSE(models.is_draft_heads(1));
  EXPECT_TRUE(models.is_draft_heads(2));
  EXPECT_EQ(models.find(2), nullptr);
}

TEST(RankModels, OtherRanks_openTheirOwn_ifTheLayoutIsFixed) {
  const RankModels stage = opened(files(), "bytes", 1), drafter = opened(files(), "bytes", 2);
  EXPECT_TRUE(stage.has(0) && !stage.has(1));
  EXPECT_TRUE(!drafter.has(0) && drafter.has(1));
  EXPECT_EQ(drafter.own(), 1u);
  EXPECT_EQ(drafter.fingerprints().front(), 0u);
  EXPECT_NE(drafter.fingerprints().back(), 0u);
}

TEST(RankModels, OtherRanks_openWhatTheyHave_ifSpeedsDecide) {
  ModelFiles some = files();
  EXPECT_TRUE(opened(some, "auto", 2).has(0));
  const TemporaryFolder folder;
  some.drafts = {folder / "absent.gguf"};
  const RankModels stage = opened(some, "auto", 2);
  EXPECT_TRUE(stage.has(0) && !stage.has(1));
  EXPECT_EQ(stage.own(), 0u);
  EXPECT_THROW(opened(some, "bytes", 2), ModelError);
  some.target = folder / "neither.gguf";
  EXPECT_THROW(opened(some, "auto", 1), ModelError);
}

}  // namespace
}  // namespace yamata::test
