// Who drafts where ranks differ.
#include "mpi/planning/drafter_seats.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

using Ranks = std::vector<int>;

/// Ranks of these paces, each with every model.
std::vector<Seat> ranks(const std::vector<double>& paces, std::size_t models = 2) {
  std::vector<Seat> seats;
  for (const double pace : paces) seats.push_back({pace, std::vector<bool>(models, true)});
  return seats;
}

Layout seated(const std::vector<Seat>& seats, const std::vector<double>& costs = {0.05}) {
  return seat_drafters(make_layout("auto", static_cast<int>(seats.size()), static_cast<int>(costs.size()), false), seats, costs);
}

TEST(DrafterSeats, EqualRanks_areSeatedAsWithoutMeasurement) {
  const Layout layout = seated(ranks({1, 1, 1, 1}));
  EXPECT_EQ(layout[0].ranks, (Ranks{0, 1, 2}));
  EXPECT_EQ(layout[1].ranks, Ranks{3});
}

TEST(DrafterSeats, TheSlowest_draftsAndTheFastestStaysWithTheTarget) {
  const Layout layout = seated(ranks({1.5, 3, 1}));
  EXPECT_EQ(layout[0].ranks, (Ranks{0, 2}));
  EXPECT_EQ(layout[1].ranks, Ranks{1});
}

TEST(DrafterSeats, RankZero_leadsTheTargetHoweverSlow) { EXPECT_EQ(seated(ranks({9, 1, 2}))[1].ranks, Ranks{2}); }

TEST(DrafterSeats, WhoCouldNotFollow_isAStage) {
  EXPECT_EQ(seated(ranks({1, 8, 1, 1, 1}), {0.1})[1].ranks, Ranks{4}) << "a guess there would take .8 of a token, a stage .25";
  EXPECT_EQ(seated(ranks({1, 8, 1, 1, 1}), {0.01})[1].ranks, Ranks{1});
  EXPECT_EQ(seated(ranks({2.7, 4, 1}), {0.11})[1].ranks, Ranks{1}) << "slow guesses, but without the fast rank a step takes 1.6";
}

TEST(DrafterSeats, SeveralDrafters_takeTheSlowOnes) {
  const Layout layout = seated(ranks({1, 4, 1, 2}, 3), {0.05, 0.05});
  EXPECT_EQ(layout[0].ranks, (Ranks{0, 2}));
  EXPECT_EQ(layout[1].ranks, Ranks{1});
  EXPECT_EQ(layout[2].ranks, Ranks{3});
}

TEST(DrafterSeats, FilesThatAreMissing_decide) {
  auto seats = ranks({1, 1, 3});
  seats[1].has_model[0] = false;
  EXPECT_EQ(seated(seats)[1].ranks, Ranks{1}) << "it cannot be a stage";
  seats = ranks({1, 1, 3});
  seats[2].has_model[1] = false;
  EXPECT_EQ(seated(seats)[1].ranks, Ranks{1}) << "the slow one lacks the draft";
  seats = ranks({1, 1, 3, 1});
  seats[1].has_model[0] = seats[2].has_model[0] = false;
  EXPECT_EQ(seated(seats)[1].ranks, Ranks{3}) << "two lack the target: as the flags say, and the plan's fault is reported";
}

}  // namespace
}  // namespace yamata
