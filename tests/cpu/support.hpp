#pragma once
// Random weights and activations for the tests of the kernels.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "node/cpu/kernels.hpp"

namespace yamata::cpu {

inline constexpr TensorType kAllTypes[] = {TensorType::F32,  TensorType::F16,  TensorType::BF16, TensorType::Q4_0,   TensorType::Q4_1,
                                           TensorType::Q5_0, TensorType::Q5_1, TensorType::Q8_0, TensorType::Q2_K,   TensorType::Q3_K,
                                           TensorType::Q4_K, TensorType::Q5_K, TensorType::Q6_K, TensorType::IQ4_NL, TensorType::IQ4_XS};

inline bool is_float(TensorType t) { return t == TensorType::F32 || t == TensorType::F16 || t == TensorType::BF16; }

struct NamedTable {
  std::string name;
  const KernelTable* table;
};
/// What this machine runs, natively or (as `simde-...`) emulated, without the scalar reference.
std::vector<NamedTable> tables_under_test();

using Random = std::mt19937;

std::vector<float> random_floats(Random& random, std::size_t n, float deviation = 1.0f);
/// Whole rows of blocks: every quantized bit random, the half floats of each block moderate.
std::vector<std::byte> random_weights(Random& random, TensorType type, std::int64_t rows, std::int64_t cols);

/// Activations with room for the quantized form, sized exactly, so that a sanitizer sees reads past them.
struct Activations {
  Activations(const KernelTable& table, std::vector<float> x, std::int64_t tokens, std::int64_t cols);
  QuantizedRows quantized();
  std::vector<float> x;
  std::vector<std::int8_t> values;
  std::vector<float> scales, sums;
  std::int64_t padded;
};

std::vector<float> multiply(const KernelTable& table, TensorType type, const std::vector<std::byte>& weights, Activations& x,
                            std::int64_t rows, std::int64_t cols, std::int64_t tokens);

std::vector<std::uint32_t> bits(const std::vector<float>& values);

}  // namespace yamata::cpu
