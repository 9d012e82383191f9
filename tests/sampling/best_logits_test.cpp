// The best logits of a row: those that sorting gives, and enough of them for the sampler to choose the same token.
#include "src/sampling/best_logits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "src/sampling/sampler.hpp"

namespace yamata {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// With ties, and values that are not numbers.
std::vector<float> random_row(std::size_t size, std::mt19937& random) {
  std::vector<float> row(size);
  for (float& value : row) {
    const auto kind = random() % 40;
    value = kind == 0 ? std::numeric_limits<float>::quiet_NaN() : kind == 1 ? kNever : static_cast<float>(random() % 200) / 16.0f - 6.0f;
  }
  return row;
}

TEST(BestLogits, OfEveryRow_areThoseThatSortingGives) {
  std::mt19937 random(1);
  for (const std::size_t vocabulary : {1u, 31u, 32u, 33u, 1000u}) {
    for (const std::size_t count : {1u, 2u, 7u, 31u}) {
      if (count > vocabulary) continue;
      std::vector<float> rows;
      for (int r = 0; r < 3; ++r) {
        const auto row = random_row(vocabulary, random);
        rows.insert(rows.end(), row.begin(), row.end());
      }
      const BestLogits best = best_logits(rows, vocabulary, count);
      ASSERT_EQ(best.tokens.size(), 3 * count);
      for (std::size_t r = 0; r < 3; ++r) {
        const float* row = rows.data() + r * vocabulary;
        std::vector<std::int32_t> ids;
        for (std::size_t i = 0; i < vocabulary; ++i) {
          if (row[i] > kNever) ids.push_back(static_cast<std::int32_t>(i));
        }
        std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) { return row[a] > row[b]; });
        ids.resize(count, -1);
        for (std::size_t i = 0; i < count; ++i) {
          EXPECT_EQ(best.tokens[r * count + i], ids[i]) << vocabulary << " " << count << " " << i;
          EXPECT_EQ(best.values[r * count + i], ids[i] < 0 ? kNever : row[ids[i]]);
        }
      }
    }
  }
}

TEST(LogSumExp, IsThatOfDoublePrecision) {
  std::mt19937 random(3);
  for (const std::size_t size : {1u, 15u, 16u, 17u, 64u, 1003u, 49152u}) {
    for (const float width : {0.0f, 1.0f, 12.0f, 300.0f}) {
      std::vector<float> row(size);
      for (float& value : row) value = width * (static_cast<float>(random() % 100001) / 100000.0f - 0.5f) + 20;
      double sum = 0;
      for (const float value : row) sum += std::exp(static_cast<double>(value) - 20);
      EXPECT_NEAR(log_sum_exp(row), std::log(sum) + 20, 2e-5) << size << " " << width;
      EXPECT_EQ(log_sum_exp(row, best_logits(row, size, 1).values[0]), log_sum_exp(row)) << size << " " << width;
    }
  }
}

TEST(LogSumExp, IgnoresWhatIsNotANumber) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> row(40, kNever);
  EXPECT_EQ(log_sum_exp(row), kNever);
  EXPECT_EQ(log_sum_exp({}), kNever);
  row[3] = row[37] = 2;
  row[0] = row[20] = row[38] = kNaN;
  EXPECT_NEAR(log_sum_exp(row), 2 + std::log(2.0), 1e-6);
}

TEST(BestLogits, AsManyAsSamplingReads_giveTheSameToken) {
  std::mt19937 random(2);
  constexpr std::size_t kVocabulary = 300;
  for (int round = 0; round < 3000; ++round) {
    SamplingParams params;
    params.temperature = round % 3 == 0 ? 0.0f : 0.9f;
    params.top_k = static_cast<std::int32_t>(random() % 30);
    params.top_p = random() % 2 ? 1.0f : 0.9f;
    params.min_p = random() % 2 ? 0.0f : 0.05f;
    params.repeat_penalty = std::array{1.0f, 1.3f, 0.8f}[random() % 3];
    params.repeat_last_n = static_cast<std::int32_t>(random() % 12);
    params.seed = random();
    std::vector<float> row = random_row(kVocabulary, random);
    std::vector<std::int32_t> ids(kVocabulary);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random);
    // Penalties and bans matter most for the best logits.
    std::partial_sort(ids.begin(), ids.begin() + 20, ids.end(),
                      [&](std::int32_t a, std::int32_t b) { return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)]; });
    const std::vector<std::int32_t> banned(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(random() % 3));
    const std::vector<std::int32_t> history(ids.begin() + 2, ids.begin() + 18);
    Sampler sampler(params);
    sampler.ban(banned);
    const std::size_t count = logits_read(params, banned.size());
    std::vector<float> few = row;
    if (count > 0) {
      const BestLogits best = best_logits(row, kVocabulary, count);
      few = spread_logits(best.tokens, best.values, kVocabulary);
    }
    EXPECT_EQ(sampler.sample(few, history, round), sampler.sample(row, history, round)) << round;
  }
}

TEST(BestLogits, AllAreRead_whereAnyTokenMayBecomeTheBest) {
  SamplingParams params;
  EXPECT_EQ(logits_read(params, 0), 1u);
  EXPECT_EQ(logits_read(params, 2), 3u);
  params.repeat_penalty = 1.1f;
  EXPECT_EQ(logits_read(params, 0), 65u);
  params.temperature = 0.8f;
  EXPECT_EQ(logits_read(params, 0), 104u);
  params.repeat_penalty = 0.9f;
  EXPECT_EQ(logits_read(params, 0), 0u);
  params.repeat_penalty = 1.0f;
  params.top_k = 0;
  EXPECT_EQ(logits_read(params, 0), 0u);
}

}  // namespace
}  // namespace yamata
