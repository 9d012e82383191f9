#include "src/speculation/best_choices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace yamata {
namespace {

/// Against sorting all of them; many are equal.
TEST(BestChoices, AreThoseOfASort_lowestTokenFirstAmongEquals) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(1 + random() % 300);
    for (float& l : logits) l = static_cast<float>(random() % 40) * 0.5f - 10;
    std::vector<std::int32_t> sorted(logits.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::ranges::stable_sort(sorted,
                             [&](auto a, auto b) { return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)]; });
    double sum = 0;
    for (const float l : logits) sum += std::exp(static_cast<double>(l));
    const auto choices = best_choices(logits, 4);
    ASSERT_EQ(choices.size(), std::min<std::size_t>(4, logits.size()));
    for (std::size_t i = 0; i < choices.size(); ++i) {
      EXPECT_EQ(choices[i].token, sorted[i]) << round;
      EXPECT_NEAR(choices[i].probability, std::exp(static_cast<double>(logits[static_cast<std::size_t>(sorted[i])])) / sum, 1e-5);
    }
  }
}

TEST(BestChoices, TokensThatADraftDoesNotKnow_areNotAmongThem) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto choices = best_choices(std::vector<float>{kNever, 1, kNever, 1}, 4);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].token, 1);
  EXPECT_FLOAT_EQ(choices[0].probability, 0.5f);
  EXPECT_EQ(choices[1].token, 3);
  EXPECT_FLOAT_EQ(choices[1].probability, 0.5f);
}

TEST(BestChoices, OfARowsBestLogits_haveTheirShareOfAllLogits) {
  const std::vector<std::int32_t> tokens{9, 4, -1};
  const std::vector<float> logits{2, 1, 0};
  const auto choices = best_choices(tokens, logits, 3);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[1].token, 4);
  EXPECT_FLOAT_EQ(choices[0].probability, std::exp(-1.0f));
  EXPECT_FLOAT_EQ(choices[1].probability, std::exp(-2.0f));
}

TEST(BestChoices, WithoutLogitsOrWhereNoneIsAskedFor_thereAreNone) {
  EXPECT_TRUE(best_choices({}, 4).empty());
  EXPECT_TRUE(best_choices(std::vector<float>{1, 2}, 0).empty());
}

}  // namespace
}  // namespace yamata
