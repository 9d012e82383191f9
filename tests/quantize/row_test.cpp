// Rows to blocks and back.
#include "src/quantize/row.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "node/cpu/kernels/kernels.hpp"

namespace yamata::quantize {
namespace {

struct Format {
  TensorType type;
  double error;  ///< root mean square on normally distributed values of variance 1: about step / sqrt(12), with a margin of 20 %
};
constexpr Format kFormats[] = {{TensorType::F16, 4e-4},   {TensorType::BF16, 3e-3},   {TensorType::Q8_0, 7e-3},
                               {TensorType::Q6_K, 0.022}, {TensorType::Q5_0, 0.050},  {TensorType::Q5_1, 0.047},
                               {TensorType::Q5_K, 0.044}, {TensorType::Q4_0, 0.105},  {TensorType::Q4_1, 0.100},
                               {TensorType::Q4_K, 0.090}, {TensorType::IQ4_NL, 0.09}, {TensorType::IQ4_XS, 0.095},
                               {TensorType::Q3_K, 0.20},  {TensorType::Q2_K, 0.40},   {TensorType::MXFP4, 0.16}};

constexpr std::size_t kCols = 1024;

std::vector<float> normal(unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw;
  std::vector<float> x(kCols);
  for (float& value : x) value = draw(engine);
  return x;
}

std::vector<float> there_and_back(TensorType type, const std::vector<float>& x, const float* importance = nullptr) {
  std::vector<std::byte> bytes(x.size() / traits(type).block_elements * traits(type).block_bytes);
  quantize_row(type, x, importance, bytes.data());
  std::vector<float> y(x.size());
  cpu::dequantize(type, bytes.data(), static_cast<std::int64_t>(y.size()), y.data());
  return y;
}

/// Square root of the mean of weighted squared differences.
double error(const std::vector<float>& x, const std::vector<float>& y, const float* weights = nullptr) {
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double weight = weights ? weights[i] : 1.0;
    sum += weight * (x[i] - y[i]) * (x[i] - y[i]);
    all += weight;
  }
  return std::sqrt(sum / all);
}

TEST(QuantizeRow, Error_isWithinTheFormats) {
  for (const Format& format : kFormats) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      const std::vector<float> x = normal(seed);
      const double e = error(x, there_and_back(format.type, x));
      EXPECT_LT(e, format.error) << traits(format.type).name << " seed " << seed;
      EXPECT_GT(e, format.error / 3) << traits(format.type).name << " seed " << seed;
    }
  }
}

TEST(QuantizeRow, Importance_lowersTheErrorWhereItMatters) {
  for (const Format& format : kFormats) {
    if (traits(format.type).block_elements == 1 || format.type == TensorType::Q8_0 || format.type == TensorType::MXFP4)
      continue;  // these do not use weights
    double plain = 0, weighted = 0;
    for (unsigned seed = 1; seed <= 5; ++seed) {
      const std::vector<float> x = normal(seed);
      std::vector<float> importance(kCols, 1);
      for (std::size_t i = 0; i < kCols; i += 5) importance[i] = 100;
      plain += error(x, there_and_back(format.type, x), importance.data());
      weighted += error(x, there_and_back(format.type, x, importance.data()), importance.data());
    }
    EXPECT_LT(weighted, plain * 0.98) << traits(format.type).name;
  }
}

TEST(QuantizeRow, Zeros_stayZeros) {
  const std::vector<float> zeros(kCols, 0.0f), importance(kCols, 1.0f);
  for (const Format& format : kFormats) {
    EXPECT_EQ(there_and_back(format.type, zeros), zeros) << traits(format.type).name;
    EXPECT_EQ(there_and_back(format.type, zeros, importance.data()), zeros) << traits(format.type).name;
  }
}

TEST(QuantizeRow, Halves_roundToNearestEven) {
  std::vector<float> x(32, 1.0f);
  x[1] = 1.0f + 0x1p-11f;  // halfway between two F16: down to even
  x[2] = 1.0f + 0x3p-11f;  // halfway: up to even
  x[3] = 65504.0f;
  EXPECT_EQ(there_and_back(TensorType::F16, x)[1], 1.0f);
  EXPECT_EQ(there_and_back(TensorType::F16, x)[2], 1.0f + 0x2p-10f);
  EXPECT_EQ(there_and_back(TensorType::F16, x)[3], 65504.0f);
  x[1] = 1.0f + 0x1p-8f;
  x[2] = 1.0f + 0x3p-8f;
  EXPECT_EQ(there_and_back(TensorType::BF16, x)[1], 1.0f);
  EXPECT_EQ(there_and_back(TensorType::BF16, x)[2], 1.0f + 0x4p-8f);
}

TEST(QuantizeRow, Float_isCopied) {
  const std::vector<float> x = normal(9);
  EXPECT_EQ(there_and_back(TensorType::F32, x), x);
}

TEST(QuantizeRow, WhatDoesNotFit_isRefused) {
  for (const Format& format : kFormats) {
    if (format.type == TensorType::MXFP4) continue;  // its powers of two have the range of floats
    std::vector<float> x = normal(3);
    x[kCols - 1] = format.type == TensorType::BF16 ? 3.4e38f : 1e12f;
    EXPECT_THROW(there_and_back(format.type, x), OutOfRange) << traits(format.type).name;
  }
}

}  // namespace
}  // namespace yamata::quantize
