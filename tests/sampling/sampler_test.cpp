#include "src/sampling/sampler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "node/error.hpp"
#include "src/sampling/philox.hpp"

namespace yamata {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

SamplingParams plain() { return {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f}; }

std::vector<std::int32_t> kept(const SamplingParams& params, std::vector<float> logits) {
  Sampler sampler(params);
  std::vector<std::int32_t> ids;
  for (const Candidate& candidate : sampler.distribution(logits, {})) ids.push_back(candidate.id);
  return ids;
}

TEST(Philox, KnownAnswers_match) {
  using Words = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, ManyPositions_lieInRangeAndDependOnSeed) {
  for (std::uint64_t position = 0; position < 1000; ++position) {
    const double draw = uniform(1, position);
    EXPECT_GE(draw, 0.0);
    EXPECT_LT(draw, 1.0);
    EXPECT_EQ(draw, uniform(1, position));
    EXPECT_NE(draw, uniform(2, position));
  }
}

TEST(Sampler, Greedy_takesLowestIdOfTiesAndNeverNan) {
  Sampler sampler(SamplingParams{});
  std::vector<float> logits = {kNan, 1.0f, 3.0f, 3.0f, kNan};
  EXPECT_EQ(sampler.sample(logits, {}, 0), 2);
}

TEST(Sampler, NothingUsable_throwsModelError) {
  for (const float temperature : {0.0f, 1.0f}) {
    Sampler sampler(SamplingParams{.temperature = temperature});
    std::vector<float> logits = {kNan, -kInfinity};
    EXPECT_THROW(sampler.sample(logits, {}, 0), ModelError);
  }
}

TEST(Sampler, BannedIds_areNeverChosen) {
  Sampler sampler(SamplingParams{});
  sampler.ban({1, 99, -1});
  std::vector<float> logits = {0.0f, 5.0f, 1.0f};
  EXPECT_EQ(sampler.sample(logits, {}, 0), 2);
}

TEST(Sampler, RepeatPenalty_worksOncePerIdInTheWindow) {
  Sampler sampler(SamplingParams{.repeat_penalty = 2.0f, .repeat_last_n = 3});
  std::vector<float> logits = {4.0f, -1.0f, 3.0f, 4.0f};
  const std::vector<std::int32_t> history = {2, 0, 1, 0};
  EXPECT_EQ(sampler.sample(logits, history, 0), 3);
  EXPECT_EQ(logits, (std::vector<float>{2.0f, -2.0f, 3.0f, 4.0f}));
}

TEST(Sampler, Truncation_keepsTheSmallestSets) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f), std::log(0.15f), std::log(0.25f)};
  SamplingParams params = plain();
  EXPECT_EQ(kept(params, logits), (std::vector<std::int32_t>{1, 3, 2, 0}));
  params.top_k = 3;
  EXPECT_EQ(kept(params, logits), (std::vector<std::int32_t>{1, 3, 2}));
  params = plain();
  params.top_p = 0.7f;
  EXPECT_EQ(kept(params, logits), (std::vector<std::int32_t>{1, 3}));
  params.top_p = 0.0f;
  EXPECT_EQ(kept(params, logits), (std::vector<std::int32_t>{1}));
  params = plain();
  params.min_p = 0.28f;
  EXPECT_EQ(kept(params, logits), (std::vector<std::int32_t>{1, 3, 2}));
}

TEST(Sampler, Temperature_sharpensAfterTruncation) {
  SamplingParams params = plain();
  params.temperature = 0.5f;
  Sampler sampler(params);
  std::vector<float> logits = {std::log(1.0f), std::log(2.0f)};
  const auto& distribution = sampler.distribution(logits, {});
  EXPECT_NEAR(distribution[0].probability, 0.8, 1e-6);
  EXPECT_NEAR(distribution[1].probability, 0.2, 1e-6);
}

TEST(Sampler, InfiniteLogit_takesAll) {
  Sampler sampler(plain());
  std::vector<float> logits = {1.0f, kInfinity, 2.0f};
  EXPECT_EQ(sampler.sample(logits, {}, 0), 1);
}

TEST(Sampler, Draws_followTheDistribution) {
  const std::vector<double> expected = {0.05, 0.1, 0.15, 0.3, 0.4};
  SamplingParams params = plain();
  params.seed = 42;
  Sampler sampler(params);
  constexpr int kDraws = 20000;
  std::vector<int> counts(expected.size());
  for (int position = 0; position < kDraws; ++position) {
    std::vector<float> logits;
    for (const double p : expected) logits.push_back(static_cast<float>(std::log(p)));
    ++counts[static_cast<std::size_t>(sampler.sample(logits, {}, position))];
  }
  double chi_square = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    chi_square += std::pow(counts[i] - kDraws * expected[i], 2) / (kDraws * expected[i]);
  }
  EXPECT_LT(chi_square, 18.5);  // 4 degrees of freedom, significance 0.001
}

/// A language model given by a table: logits of 5 tokens after each prefix of up to two tokens.
std::vector<float> table_logits(std::span<const std::int32_t> prefix) {
  std::vector<float> logits;
  std::uint64_t at = 7;
  for (const std::int32_t token : prefix) at = at * 31 + static_cast<std::uint64_t>(token) + 1;
  for (std::uint64_t v = 0; v < 5; ++v) logits.push_back(static_cast<float>(3 * uniform(at, v)));
  return logits;
}

/// The exact probability of each of the 125 texts of three tokens.
std::vector<double> exact_joint() {
  std::vector<double> joint;
  for (int text = 0; text < 125; ++text) {
    const std::vector<std::int32_t> tokens{text / 25, text / 5 % 5, text % 5};
    double p = 1;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto logits = table_logits(std::span(tokens).first(i));
      double sum = 0;
      for (const float l : logits) sum += std::exp(static_cast<double>(l));
      p *= std::exp(static_cast<double>(logits[static_cast<std::size_t>(tokens[i])])) / sum;
    }
    joint.push_back(p);
  }
  return joint;
}

TEST(Sampler, TextsOfManySeeds_areDistributedAsTheModelSays) {
  constexpr int kSeeds = 200000, kGroups = 5;
  const std::vector<double> joint = exact_joint();
  for (int group = 0; group < kGroups; ++group) {
    std::vector<int> counts(125, 0);
    for (int n = 0; n < kSeeds; ++n) {
      SamplingParams params;
      params.temperature = 1;
      params.top_k = 0;
      params.top_p = 1;
      params.min_p = 0;
      params.seed = static_cast<std::uint64_t>(group) * 1000003 + static_cast<std::uint64_t>(n);
      Sampler sampler(params);
      std::vector<std::int32_t> text;
      for (int i = 0; i < 3; ++i) {
        auto logits = table_logits(text);
        text.push_back(sampler.sample(logits, text, i));
      }
      ++counts[static_cast<std::size_t>(text[0] * 25 + text[1] * 5 + text[2])];
    }
    double chi = 0, rest_expected = 0, rest_counted = 0;
    int cells = 0;
    for (std::size_t t = 0; t < 125; ++t) {
      const double expected = joint[t] * kSeeds;
      if (expected < 10) {  // merged with others
        rest_expected += expected;
        rest_counted += counts[t];
        continue;
      }
      chi += (counts[t] - expected) * (counts[t] - expected) / expected;
      ++cells;
    }
    if (rest_expected >= 10) {
      chi += (rest_counted - rest_expected) * (rest_counted - rest_expected) / rest_expected;
      ++cells;
    }
    // Wilson and Hilferty's bound for a probability of 1e-3 / 5 groups (3.54 standard deviations).
    const double df = cells - 1;
    const double bound = df * std::pow(1 - 2 / (9 * df) + 3.54 * std::sqrt(2 / (9 * df)), 3);
    EXPECT_LT(chi, bound) << "group " << group << ", " << df << " degrees of freedom";
  }
}

}  // namespace
}  // namespace yamata
