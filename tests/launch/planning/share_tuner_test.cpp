// The search for shares under contention, with units whose times can be computed.
#include "launch/program/planning/share_tuner.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace yamata {
namespace {

using Times = std::function<std::vector<double>(const std::vector<double>& shares)>;

std::vector<double> tuned(const std::vector<double>& isolated_s, std::int64_t grains, const Times& times, int& measurements) {
  ShareTuner tuner(isolated_s, grains);
  for (measurements = 0; !tuner.done(); ++measurements) {
    const std::vector<double> shares = tuner.shares();
    double sum = 0;
    for (const double share : shares) {
      EXPECT_GT(share, 0);
      sum += share;
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    tuner.measured(times(shares));
    EXPECT_LT(measurements, 1000);
  }
  return tuner.shares();
}

TEST(ShareTuner, isolatedSharesAreThoseOfTheSpeeds) {
  EXPECT_EQ(isolated_shares(std::vector<double>{1, 1}), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(isolated_shares(std::vector<double>{1, 3}), (std::vector<double>{0.75, 0.25})) << "r0 = t_gpu / (t_cpu + t_gpu) for the CPU";
}

TEST(ShareTuner, staysWhereUnitsDoNotSlowEachOtherDown) {
  int measurements = 0;
  const std::vector<double> found = tuned(
      {1, 3}, 128,
      [](const auto& shares) {
        return std::vector<double>{shares[0], 3 * shares[1]};
      },
      measurements);
  EXPECT_DOUBLE_EQ(found[0], 0.75);
  EXPECT_LE(measurements, 8) << "the first, and one for each step from 16 grains to 1";
}

TEST(ShareTuner, findsTheSharesUnderContentionToAGrain) {
  // Alone, both are equally fast; together, the second has a third of the memory bandwidth.
  constexpr std::int64_t kGrains = 300;
  int measurements = 0;
  const std::vector<double> found = tuned(
      {1, 1}, kGrains,
      [](const auto& shares) {
        return std::vector<double>{1.1 * shares[0], 2.2 * shares[1]};
      },
      measurements);
  EXPECT_NEAR(found[0], 2.0 / 3, 1.0 / kGrains);
  EXPECT_LE(measurements, 20);
}

TEST(ShareTuner, findsThemForThreeUnits) {
  constexpr std::int64_t kGrains = 400;
  int measurements = 0;
  const std::vector<double> found = tuned(
      {1, 1, 1}, kGrains,
      [](const auto& shares) {
        return std::vector<double>{shares[0], 2 * shares[1], 4 * shares[2]};
      },
      measurements);
  EXPECT_NEAR(found[0], 4.0 / 7, 0.02);
  EXPECT_NEAR(found[1], 2.0 / 7, 0.02);
}

TEST(ShareTuner, aUnitKeepsAGrain) {
  int measurements = 0;
  const std::vector<double> found = tuned(
      {1, 1}, 8,
      [](const auto& shares) {
        return std::vector<double>{shares[0], 1e6 * shares[1]};
      },
      measurements);
  EXPECT_DOUBLE_EQ(found[1], 1.0 / 8);
}

TEST(ShareTuner, worksWithAGrainEach) {
  int measurements = 0;
  EXPECT_EQ(tuned(
                {1, 1}, 2,
                [](const auto&) {
                  return std::vector<double>{1, 2};
                },
                measurements),
            (std::vector<double>{0.5, 0.5}));
}

}  // namespace
}  // namespace yamata
