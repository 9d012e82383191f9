// Adaptive shares: the shares that they converge to, how fast they follow a change, and which differences are too small.
#include "node/units/unit_shares.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace yamata {
namespace {

WorkKind product(std::int64_t outputs, int width_class = 0) {
  return {.what = WorkKind::What::kProduct, .outputs = outputs, .inputs = 64, .width_class = width_class, .context = 0};
}

/// Units of these speeds repeatedly do the work that takes a unit of speed 1 one second, divided into this many grains.
void work(UnitShares& shares, int label, const std::vector<double>& speeds, int runs, double& now_s, int grains = 1000) {
  for (int run = 0; run < runs; ++run) {
    std::vector<double> fractions, seconds;
    double longest = 0;
    for (std::size_t unit = 0; unit < speeds.size(); ++unit) {
      fractions.push_back(std::round(shares.of(label)[unit] * grains) / grains);
      seconds.push_back(0.01 * fractions[unit] / speeds[unit]);
      longest = std::max(longest, seconds[unit]);
    }
    shares.given(label, fractions);
    now_s += longest;
    shares.computed(label, seconds, now_s);
  }
}

TEST(UnitShares, classesAreThoseOfThePaper) {
  const std::vector<int> rows{1, 2, 4, 5, 8, 9, 16, 17, 32, 33, 512}, classes{0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5};
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(width_class_of(rows[i]), classes[i]) << rows[i];
  EXPECT_EQ(context_bucket_of(1), 16);
  EXPECT_EQ(context_bucket_of(16), 16);
  EXPECT_EQ(context_bucket_of(17), 32);
  EXPECT_EQ(context_bucket_of(2048), 2048);
  EXPECT_EQ(context_bucket_of(100000), 2048);
}

TEST(UnitShares, beginAsGivenForEveryKindOfWork) {
  UnitShares shares({3, 1}, true);
  const int wide = shares.label(product(100)), narrow = shares.label(product(10));
  EXPECT_NE(wide, narrow);
  EXPECT_NE(wide, UnitShares::kOther);
  EXPECT_EQ(shares.label(product(100)), wide);
  EXPECT_NE(shares.label(product(100, 1)), wide);
  EXPECT_EQ(shares.of(wide)[0], 0.75);
  shares.set(product(10), std::vector<double>{1, 1});
  EXPECT_EQ(shares.of(narrow)[0], 0.5);
  EXPECT_EQ(shares.of(wide)[0], 0.75);
}

TEST(UnitShares, followTheSpeedsOfEachKindOfWork) {
  UnitShares shares({1, 1}, true);
  const int even = shares.label(product(10)), uneven = shares.label(product(20));
  double now_s = 0;
  work(shares, even, {1, 1}, 50, now_s);
  work(shares, uneven, {1, 0.4}, 50, now_s);
  EXPECT_EQ(shares.of(even)[0], 0.5) << "nothing to be gained";
  EXPECT_NEAR(shares.of(uneven)[0], 1 / 1.4, 0.01);
  EXPECT_NEAR(shares.of(uneven)[0] + shares.of(uneven)[1], 1, 1e-12);
}

TEST(UnitShares, followAChangeWithinASecond) {
  UnitShares shares({1, 1}, true);
  const int label = shares.label(product(10));
  double now_s = 0;
  work(shares, label, {1, 0.4}, 400, now_s);
  EXPECT_NEAR(shares.of(label)[1], 0.4 / 1.4, 0.01);
  const double lifted_s = now_s;
  while (shares.of(label)[1] < 0.48 && now_s < lifted_s + 10) work(shares, label, {1, 1}, 1, now_s);
  EXPECT_LT(now_s - lifted_s, 1);
}

TEST(UnitShares, aUnitThatIsTurnedOffAndOnIsTakenForTheMean) {
  UnitShares shares({1, 1}, true);
  const int label = shares.label(product(10));
  double now_s = 0;
  for (int round = 0; round < 20; ++round) {  // within the time that is remembered
    work(shares, label, {1, 0.2}, 3, now_s);
    work(shares, label, {1, 1}, 3, now_s);
  }
  EXPECT_GT(shares.of(label)[1], 0.2);
  EXPECT_LT(shares.of(label)[1], 0.45);
}

TEST(UnitShares, noiseMovesNothing) {
  UnitShares shares({1, 1}, true);
  const int label = shares.label(product(10));
  double now_s = 0;
  for (int round = 0; round < 50; ++round) {
    work(shares, label, {1, 0.995}, 1, now_s);
    work(shares, label, {0.995, 1}, 1, now_s);
  }
  EXPECT_EQ(shares.of(label)[0], 0.5);
}

TEST(UnitShares, fixedOnesStay) {
  UnitShares shares({0.6, 0.4}, false);
  const int label = shares.label(product(10));
  double now_s = 0;
  work(shares, label, {1, 5}, 100, now_s);
  EXPECT_EQ(shares.of(label)[0], 0.6);
}

TEST(UnitShares, aStoppedUnitKeepsEnoughToBeSeenAgain) {
  UnitShares shares({1, 1}, true);
  const int label = shares.label(product(10));
  double now_s = 0;
  work(shares, label, {1, 0.0001}, 50, now_s);
  EXPECT_GT(shares.of(label)[1], 0.01);
  work(shares, label, {1, 1}, 400, now_s);
  EXPECT_NEAR(shares.of(label)[1], 0.5, 0.02);
}

TEST(UnitShares, aUnitWhosePieceIsRoundedToNothing_getsOneAgainNowAndThen) {
  constexpr int kSegments = 2;
  UnitShares shares({1, 1}, true);
  const int label = shares.label(product(10));
  double now_s = 0;
  int with_work = 0;
  for (int run = 0; run < 1000; ++run) {
    with_work += std::round(shares.of(label)[1] * kSegments) > 0;
    work(shares, label, {1, 0.01}, 1, now_s, kSegments);
  }
  EXPECT_GT(with_work, 4);
  EXPECT_LT(with_work, 20);
  work(shares, label, {1, 1}, 200, now_s, kSegments);
  EXPECT_NEAR(shares.of(label)[1], 0.5, 0.02) << "as fast as the other";
  UnitShares fixed({0.98, 0.02}, false);
  const int same = fixed.label(product(10));
  work(fixed, same, {1, 1}, 1000, now_s, kSegments);
  EXPECT_EQ(fixed.of(same)[1], 0.02);
}

TEST(UnitShares, overallAreThoseOfTheTime) {
  UnitShares shares({1, 1}, true);
  EXPECT_EQ(shares.overall(), (std::vector<double>{0.5, 0.5}));
  const int slow = shares.label(product(10)), fast = shares.label(product(20));
  double now_s = 0;
  work(shares, slow, {0.3, 0.1}, 200, now_s);
  work(shares, fast, {30, 30}, 200, now_s);
  EXPECT_GT(shares.overall()[0], 0.72);
}

}  // namespace
}  // namespace yamata
