// Compares angles with the published formulas, which are computed here in double precision without the code under test.
#include "src/model/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

namespace yamata {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr std::int64_t kPositions[] = {0, 1, 2, 7, 100, 4095, 131071, 1'000'000};

Hyperparameters model(std::int64_t rotary_dim, float base) {
  Hyperparameters h;
  h.rotary_dim = rotary_dim;
  h.layer.rope_base = base;
  return h;
}

/// theta of RoFormer (Su et al. 2021, equation 15): base^(-2i/d).
double plain_frequency(const Hyperparameters& h, std::int64_t pair) {
  return 1.0 / std::pow(static_cast<double>(h.layer.rope_base), 2.0 * static_cast<double>(pair) / static_cast<double>(h.rotary_dim));
}

/// Every pair at several positions must rotate by `frequency(pair)` per position and have length `magnitude`.
void expect_angles(const Hyperparameters& h, const float* factors, const std::function<double(std::int64_t)>& frequency, double magnitude) {
  const Rope rope(h, h.layer, factors);
  std::vector<float> out(static_cast<std::size_t>(h.rotary_dim) + 1);
  for (const std::int64_t position : kPositions) {
    out.back() = 123.0f;
    rope.angles(position, out.data());
    for (std::int64_t pair = 0; pair < h.rotary_dim / 2; ++pair) {
      const double angle = static_cast<double>(position) * frequency(pair);
      // Half an ulp of a float, and the effect of rounding the frequency in double precision at this position.
      const double tolerance = magnitude * (6e-8 + 1e-15 * (1.0 + angle));
      const std::size_t at = static_cast<std::size_t>(2 * pair);
      EXPECT_NEAR(out[at], magnitude * std::cos(angle), tolerance) << "position " << position << " pair " << pair;
      EXPECT_NEAR(out[at + 1], magnitude * std::sin(angle), tolerance) << "position " << position << " pair " << pair;
    }
    EXPECT_EQ(out.back(), 123.0f);
  }
}

TEST(Rope, NoScaling_turnsByTheBase) {
  for (const std::int64_t dim : {2, 16, 80, 128}) {
    for (const float base : {10000.0f, 500000.0f}) {
      const Hyperparameters h = model(dim, base);
      expect_angles(
          h, nullptr, [&](std::int64_t pair) { return plain_frequency(h, pair); }, 1.0);
    }
  }
}

TEST(Rope, Linear_dividesEveryPosition) {
  Hyperparameters h = model(64, 10000.0f);
  h.rope = {RopeScaling::Kind::kLinear, 8.0f, 1.0f, 2048};
  expect_angles(
      h, nullptr, [&](std::int64_t pair) { return plain_frequency(h, pair) / 8.0; }, 1.0);
}

TEST(Rope, AttentionFactor_lengthensWithEveryScaling) {
  Hyperparameters h = model(64, 10000.0f);
  for (const auto kind : {RopeScaling::Kind::kNone, RopeScaling::Kind::kLinear, RopeScaling::Kind::kLong}) {
    h.rope = {kind, kind == RopeScaling::Kind::kLinear ? 8.0f : 1.0f, 1.5f, 2048};
    expect_angles(
        h, nullptr, [&](std::int64_t pair) { return plain_frequency(h, pair) / static_cast<double>(h.rope.factor); }, 1.5);
  }
}

/// Meta's scaling of Llama 3.1 by wavelength (factor 8, low 1, high 4, context 8192), as divisors like in GGUF files.
std::vector<float> llama3_divisors(const Hyperparameters& h) {
  constexpr double kFactor = 8, kLow = 1, kHigh = 4, kContext = 8192;
  std::vector<float> divisors;
  for (std::int64_t pair = 0; pair < h.rotary_dim / 2; ++pair) {
    const double wavelength = 2 * kPi / plain_frequency(h, pair);
    const double smooth = (kContext / wavelength - kLow) / (kHigh - kLow);
    double divisor = 1 / ((1 - smooth) / kFactor + smooth);
    if (wavelength < kContext / kHigh) divisor = 1;
    if (wavelength > kContext / kLow) divisor = kFactor;
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

TEST(Rope, Llama3Divisors_divideEachPairsFrequency) {
  const Hyperparameters h = model(128, 500000.0f);
  const std::vector<float> divisors = llama3_divisors(h);
  ASSERT_EQ(divisors.front(), 1.0f);
  ASSERT_EQ(divisors.back(), 8.0f);
  const auto frequency = [&](std::int64_t pair) {
    return plain_frequency(h, pair) / static_cast<double>(divisors[static_cast<std::size_t>(pair)]);
  };
  expect_angles(h, divisors.data(), frequency, 1.0);
}

/// YaRN (Peng et al. 2023, section 3.2 and the authors' code): pairs with more than 32 rotations over the original context keep their
/// frequency, those with less than one are interpolated, and between them the transition is linear in the pair's index.
double yarn_frequency(const Hyperparameters& h, std::int64_t pair, double fast = 32, double slow = 1) {
  const auto correction = [&](double rotations) {
    const double d = static_cast<double>(h.rotary_dim), context = static_cast<double>(h.rope.original_context);
    return d * std::log(context / (rotations * 2 * kPi)) / (2 * std::log(static_cast<double>(h.layer.rope_base)));
  };
  const double low = std::max(std::floor(correction(fast)), 0.0);
  double high = std::min(std::ceil(correction(slow)), static_cast<double>(h.rotary_dim - 1));
  if (high == low) high += 0.001;  // no division by zero
  const double interpolated = std::min(std::max((static_cast<double>(pair) - low) / (high - low), 0.0), 1.0);
  const double kept = plain_frequency(h, pair);
  return kept / static_cast<double>(h.rope.factor) * interpolated + kept * (1 - interpolated);
}

TEST(Rope, Yarn_followsTheAuthorsRamp) {
  for (const std::int64_t dim : {64, 128}) {
    for (const float factor : {2.0f, 16.0f, 40.0f}) {
      Hyperparameters h = model(dim, 10000.0f);
      h.rope = {RopeScaling::Kind::kYarn, factor, 1.0f, 4096};
      const double magnitude = 0.1 * std::log(static_cast<double>(factor)) + 1.0;
      expect_angles(
          h, nullptr, [&](std::int64_t pair) { return yarn_frequency(h, pair); }, magnitude);
    }
  }
}

TEST(Rope, Yarn_takesItsBoundsFromTheFile) {
  Hyperparameters h = model(128, 10000.0f);
  h.rope = {RopeScaling::Kind::kYarn, 16.0f, 1.0f, 4096, 16, 2};
  expect_angles(
      h, nullptr, [&](std::int64_t pair) { return yarn_frequency(h, pair, 16, 2); }, 0.1 * std::log(16.0) + 1.0);
}

TEST(Rope, Yarn_keepsFastPairsAndInterpolatesSlowOnes) {
  Hyperparameters h = model(128, 10000.0f);
  h.rope = {RopeScaling::Kind::kYarn, 16.0f, 1.0f, 4096};
  const Rope rope(h, h.layer, nullptr);
  std::vector<float> out(128);
  rope.angles(1, out.data());
  int kept = 0, interpolated = 0, between = 0;
  for (std::int64_t pair = 0; pair < 64; ++pair) {
    const auto at = static_cast<std::size_t>(2 * pair);
    const double frequency = std::atan2(static_cast<double>(out[at + 1]), static_cast<double>(out[at])), plain = plain_frequency(h, pair);
    const double rotations = 4096 * plain / (2 * kPi);
    if (rotations > 32 * 1.2) {
      EXPECT_NEAR(frequency, plain, 1e-6 * plain) << "pair " << pair;
      ++kept;
    } else if (rotations < 1 / 1.2) {
      EXPECT_NEAR(frequency, plain / 16, 1e-6 * plain) << "pair " << pair;
      ++interpolated;
    } else {
      EXPECT_LE(frequency, plain * (1 + 1e-6)) << "pair " << pair;
      EXPECT_GE(frequency, plain / 16 * (1 - 1e-6)) << "pair " << pair;
      ++between;
    }
  }
  EXPECT_GT(kept, 10);
  EXPECT_GT(interpolated, 10);
  EXPECT_GT(between, 10);
}

TEST(Rope, YarnAttentionFactor_multipliesTheLength) {
  Hyperparameters h = model(32, 10000.0f);
  h.rope = {RopeScaling::Kind::kYarn, 4.0f, 0.7f, 2048};
  const double magnitude = static_cast<double>(0.7f) * (0.1 * std::log(4.0) + 1.0);
  expect_angles(
      h, nullptr, [&](std::int64_t pair) { return yarn_frequency(h, pair); }, magnitude);
}

TEST(Rope, YarnOfTinyContext_hasARampOfNoLength) {
  Hyperparameters h = model(16, 10000.0f);
  h.rope = {RopeScaling::Kind::kYarn, 4.0f, 1.0f, 6};  // less than one rotation of the fastest pair
  expect_angles(
      h, nullptr, [&](std::int64_t pair) { return yarn_frequency(h, pair); }, 0.1 * std::log(4.0) + 1.0);
}

TEST(Rope, Yarn_takesDivisorsToo) {
  Hyperparameters h = model(16, 10000.0f);
  h.rope = {RopeScaling::Kind::kYarn, 4.0f, 1.0f, 2048};
  const std::vector<float> divisors{1, 1, 2, 2, 3, 4, 5, 8};
  const auto frequency = [&](std::int64_t pair) {
    return yarn_frequency(h, pair) / static_cast<double>(divisors[static_cast<std::size_t>(pair)]);
  };
  expect_angles(h, divisors.data(), frequency, 0.1 * std::log(4.0) + 1.0);
}

}  // namespace
}  // namespace yamata
