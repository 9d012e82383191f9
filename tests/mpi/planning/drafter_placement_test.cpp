// Which rank drafts if ranks differ in speed.
#include "mpi/planning/drafter_placement.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

using Ranks = std::vector<int>;

/// Ranks with these speeds; each has every model.
std::vector<DrafterCandidate> ranks(const std::vector<double>& ns_per_byte, std::size_t models = 2) {
  std::vector<DrafterCandidate> candidates;
  for (const double ns_per_byte : ns_per_byte) candidates.push_back({ns_per_byte, std::vector<bool>(models, true)});
  return candidates;
}

Layout placed(const std::vector<DrafterCandidate>& candidates, const std::vector<double>& costs = {0.05}) {
  return place_drafters(make_layout("auto", static_cast<int>(candidates.size()), static_cast<int>(costs.size()), false), candidates, costs);
}

TEST(DrafterPlacement, EqualRanks_areSeatedAsWithoutMeasurement) {
  const Layout layout = placed(ranks({1, 1, 1, 1}));
  EXPECT_EQ(layout[0].ranks, (Ranks{0, 1, 2}));
  EXPECT_EQ(layout[1].ranks, Ranks{3});
}

TEST(DrafterPlacement, TheSlowest_draftsAndTheFastestStaysWithTheTarget) {
  const Layout layout = placed(ranks({1.5, 3, 1}));
  EXPECT_EQ(layout[0].ranks, (Ranks{0, 2}));
  EXPECT_EQ(layout[1].ranks, Ranks{1});
}

TEST(DrafterPlacement, RankZero_leadsTheTargetHoweverSlow) { EXPECT_EQ(placed(ranks({9, 1, 2}))[1].ranks, Ranks{2}); }

TEST(DrafterPlacement, WhoCouldNotFollow_isAStage) {
  EXPECT_EQ(placed(ranks({1, 8, 1, 1, 1}), {0.1})[1].ranks, Ranks{4}) << "a guess there would take .8 of a token, a stage .25";
  EXPECT_EQ(placed(ranks({1, 8, 1, 1, 1}), {0.01})[1].ranks, Ranks{1});
  EXPECT_EQ(placed(ranks({2.7, 4, 1}), {0.11})[1].ranks, Ranks{1}) << "slow guesses, but without the fast rank a step takes 1.6";
}

TEST(DrafterPlacement, SeveralDrafters_takeTheSlowOnes) {
  const Layout layout = placed(ranks({1, 4, 1, 2}, 3), {0.05, 0.05});
  EXPECT_EQ(layout[0].ranks, (Ranks{0, 2}));
  EXPECT_EQ(layout[1].ranks, Ranks{1});
  EXPECT_EQ(layout[2].ranks, Ranks{3});
}

TEST(DrafterPlacement, FilesThatAreMissing_decide) {
  auto candidates = ranks({1, 1, 3});
  candidates[1].has_model[0] = false;
  EXPECT_EQ(placed(candidates)[1].ranks, Ranks{1}) << "it cannot be a stage";
  candidates = ranks({1, 1, 3});
  candidates[2].has_model[1] = false;
  EXPECT_EQ(placed(candidates)[1].ranks, Ranks{1}) << "the slow one lacks the draft";
  candidates = ranks({1, 1, 3, 1});
  candidates[1].has_model[0] = candidates[2].has_model[0] = false;
  EXPECT_EQ(placed(candidates)[1].ranks, Ranks{3}) << "two lack the target: as the flags say, and the plan's fault is reported";
}

}  // namespace
}  // namespace yamata
