// Fits of several groups at once must equal the fits of single groups, bit for bit.
#include "src/quantize/group_fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace yamata::quantize {
namespace {

constexpr std::size_t kElements = 256;
constexpr Trials kTrials[] = {{-0.5f, 0.1f, 15, true}, {-1.0f, 0.1f, 20, false}, {-0.9f, 0.05f, 36, false}};

struct Instructions {
  const char* name;
  const GroupFit* fit;
};
std::vector<Instructions> usable() {
  std::vector<Instructions> tables;
#if defined(__x86_64__)
  if (cpu::isa_usable(cpu::Isa::kAvx2)) tables.push_back({"avx2", &group_fit_avx2});
#endif
  tables.push_back({"neon", &group_fit_neon});  // also built for this test on other processors
  return tables;
}

/// Blocks of many kinds: each group has a magnitude of its own, from underflow to overflow, and some groups are special.
std::vector<float> block(unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-60, 40), kind(0, 11);
  std::vector<float> x(kElements);
  const bool wild = seed % 2 != 0;
  for (std::size_t at = 0; at < kElements; at += 16) {
    const int special = kind(engine);
    const float size = wild ? std::ldexp(1.0f, exponent(engine)) : 0.03f;
    for (std::size_t i = 0; i < 16; ++i) {
      float value = size * normal(engine);
      if (special == 0) value = 0;
      if (special == 1) value = i % 2 != 0 ? -0.0f : 0.0f;
      if (special == 2) value = size;
      if (special == 3) value = std::fabs(value);
      if (special == 4) value = i % 2 != 0 ? size : -size;
      if (special == 5) value = i == 7 ? value * 1e4f : value;
      if (special == 6) value = std::round(normal(engine) * 3) * size;
      x[at + i] = value;
    }
  }
  return x;
}

/// One weight per element; some are 0.
std::vector<float> weights_of(unsigned seed) {
  std::mt19937 engine(seed);
  std::exponential_distribution<float> draw;
  std::uniform_int_distribution<int> zero(0, 9);
  std::vector<float> weights(kElements);
  for (float& weight : weights) weight = zero(engine) == 0 ? 0 : draw(engine);
  if (seed % 5 == 0) std::fill_n(weights.begin(), 64, 0.0f);
  return weights;
}

/// The results of a fit: the numbers, then the bits of the scales.
struct Result {
  std::vector<std::uint8_t> numbers = std::vector<std::uint8_t>(kElements, 0xee);
  std::vector<std::uint32_t> bits;
  bool operator==(const Result&) const = default;
  void take(const float* values, std::size_t count) {
    bits.resize(count);
    std::memcpy(bits.data(), values, count * sizeof *values);
  }
};

/// Runs `fit(table, block, weights)` with every table on many blocks; returns the number of different results.
template <class Fit>
std::size_t compare(Fit fit) {
  std::vector<Result> seen;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const std::vector<float> x = block(seed), weights = weights_of(seed);
    const Result expected = fit(group_fit_scalar, x.data(), weights.data());
    for (const auto& [name, table] : usable()) EXPECT_TRUE(fit(*table, x.data(), weights.data()) == expected) << name << " seed " << seed;
    if (seen.empty() || !(seen.back() == expected)) seen.push_back(expected);
  }
  return seen.size();
}

TEST(GroupFit, Symmetric_isThatOfOneGroup) {
  for (const int levels : {4, 32}) {
    for (const bool weighted : {false, true}) {
      EXPECT_GT(compare([&](const GroupFit& table, const float* x, const float* weights) {
                  Result result;
                  float scales[16];
                  table.symmetric({x, weighted ? weights : nullptr, 16, 16}, levels, result.numbers.data(), scales);
                  result.take(scales, 16);
                  return result;
                }),
                300u);
    }
  }
}

TEST(GroupFit, Refined_isThatOfOneGroup) {
  EXPECT_GT(compare([](const GroupFit& table, const float* x, const float*) {
              Result result;
              float scales[16];
              table.refine({x, nullptr, 16, 16}, 4, result.numbers.data(), scales);
              result.take(scales, 16);
              return result;
            }),
            300u);
}

TEST(GroupFit, Offset_isThatOfOneGroup) {
  for (const std::size_t size : {16u, 32u}) {
    for (const int most : {3, 15, 31}) {
      for (const Trials& trials : kTrials) {
        EXPECT_GT(compare([&](const GroupFit& table, const float* x, const float* weights) {
                    Result result;
                    Offset fits[16];
                    table.offset({x, weights, size, kElements / size}, most, trials, result.numbers.data(), fits);
                    result.take(&fits[0].scale, 2 * kElements / size);
                    return result;
                  }),
                  300u);
      }
    }
  }
}

TEST(GroupFit, Isa_hasItsTable) {
  EXPECT_EQ(&group_fit(cpu::Isa::kScalar), &group_fit_scalar);
#if defined(__x86_64__)
  for (const cpu::Isa isa : {cpu::Isa::kAvx2, cpu::Isa::kAvxVnni, cpu::Isa::kAvx512}) EXPECT_EQ(&group_fit(isa), &group_fit_avx2);
#endif
}

}  // namespace
}  // namespace yamata::quantize
