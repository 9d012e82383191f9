// What measured speeds teach about forecasts: for which layouts, how much, and for how long.
#include "launch/program/planning/kept_forecasts.hpp"

#include <gtest/gtest.h>

#include "tests/launch/planning/times.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata {
namespace {

class KeptForecastsTest : public testing::Test {
 protected:
  KeptForecasts kept(std::int64_t now_s = kNow, std::uint64_t draft = 2) { return {folder_, 1, draft, now_s}; }

  test::TemporaryFolder parent_;
  const std::string folder_ = parent_ / "kept";
  const ModelPlace target_{.model = 0, .ranks = {0}}, draft_{.model = 1, .ranks = {0}};
  const LayoutCandidate alone_{.layout = {target_, draft_}, .stages = {{0, 4}}, .strategy = Strategy::kSpeculative};
  const LayoutCandidate drafter_{.layout = {target_, {.model = 1, .ranks = {1}}}, .stages = {{0, 4}}, .strategy = Strategy::kPipeInfer};
};

TEST_F(KeptForecastsTest, SlowerJob_correctsTwoThirds_andFurtherOnesMore) {
  EXPECT_EQ(kept().correction(alone_), 1);
  kept().keep(alone_, {.expected = 100, .measured = 80});
  EXPECT_DOUBLE_EQ(kept().correction(alone_), 1.3 / 1.5);
  kept().keep(alone_, {.expected = 10, .measured = 8});
  EXPECT_DOUBLE_EQ(kept().correction(alone_), 2.1 / 2.5);
  for (int i = 0; i < 20; ++i) kept().keep(alone_, {.expected = 100, .measured = 80});
  EXPECT_NEAR(kept().correction(alone_), 4.5 / 5.5, 1e-9) << "five jobs count at most";
  for (int i = 0; i < 20; ++i) kept().keep(alone_, {.expected = 100, .measured = 110});
  EXPECT_NEAR(kept().correction(alone_), 6.0 / 5.5, 0.01) << "older ones are forgotten";
}

TEST_F(KeptForecastsTest, Job_isOfOneKindOfLayout_andOfItsModels) {
  LayoutCandidate group = alone_, pipeline = alone_, iterative = alone_;
  group.layout[0] = {.model = 0, .ranks = {0, 1}, .groups = {2}};
  pipeline.layout[0] = {.model = 0, .ranks = {0, 1}};
  iterative.layout = {target_};
  iterative.strategy = Strategy::kIterative;
  kept().keep(alone_, {.expected = 100, .measured = 80});
  for (const LayoutCandidate& other : {drafter_, group, pipeline, iterative}) EXPECT_EQ(kept().correction(other), 1);
  EXPECT_EQ(kept(kNow, 3).correction(alone_), 1);
  kept().keep(group, {.expected = 100, .measured = 120});
  EXPECT_DOUBLE_EQ(kept().correction(group), 1.7 / 1.5);
  EXPECT_EQ(kept().correction(pipeline), 1);
  EXPECT_DOUBLE_EQ(kept().correction(alone_), 1.3 / 1.5);
  group.layout[0] = {.model = 0, .ranks = {0, 2, 1}, .groups = {3}};
  EXPECT_DOUBLE_EQ(kept().correction(group), 1.7 / 1.5) << "a group of other machines";
}

TEST_F(KeptForecastsTest, DisturbedJob_countsAsTwiceAsSlow) {
  kept().keep(drafter_, {.expected = 100, .measured = 1});
  EXPECT_DOUBLE_EQ(kept().correction(drafter_), 1.0 / 1.5);
  EXPECT_DOUBLE_EQ(kept(kNow + kDay - 1).correction(drafter_), 1.0 / 1.5);
  EXPECT_EQ(kept(kNow + kDay).correction(drafter_), 1);
}

}  // namespace
}  // namespace yamata
