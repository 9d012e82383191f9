#pragma once
// Random weights and activations for the tests of the kernels.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/kernels/state_kernels.hpp"

namespace yamata::cpu {

inline constexpr TensorType kAllTypes[] = {
    TensorType::F32,   TensorType::F16,     TensorType::BF16,   TensorType::Q4_0,   TensorType::Q4_1,
    TensorType::Q5_0,  TensorType::Q5_1,    TensorType::Q8_0,   TensorType::Q2_K,   TensorType::Q3_K,
    TensorType::Q4_K,  TensorType::Q5_K,    TensorType::Q6_K,   TensorType::IQ4_NL, TensorType::IQ4_XS,
    TensorType::MXFP4, TensorType::IQ2_XXS, TensorType::IQ2_XS, TensorType::IQ2_S,  TensorType::IQ3_XXS,
    TensorType::IQ3_S, TensorType::IQ1_S,   TensorType::IQ1_M,  TensorType::TQ1_0,  TensorType::TQ2_0};

inline bool is_float(TensorType t) { return t == TensorType::F32 || t == TensorType::F16 || t == TensorType::BF16; }

struct NamedTable {
  std::string name;
  const KernelTable* table;
};
/// The tables that this machine can run, natively or emulated (`simde-...`), without the scalar reference.
std::vector<NamedTable> tables_under_test();

/// The same of layers with states.
struct NamedStateKernels {
  std::string name;
  const StateKernels* table;
};
std::vector<NamedStateKernels> state_kernels_under_test();

using Random = std::mt19937;

std::vector<float> random_floats(Random& random, std::size_t n, float deviation = 1.0f);
/// Whole rows of blocks: every quantized bit is random, the half floats of each block are of moderate size.
std::vector<std::byte> random_weights(Random& random, TensorType type, std::int64_t rows, std::int64_t cols);
/// The same with every byte of the blocks' numbers replaced; scales and mins are random.
std::vector<std::byte> weights_of(std::byte numbers, Random& random, TensorType type, std::int64_t rows, std::int64_t cols);

/// Activations and their quantized form, in memory of exactly that size, so that sanitizers detect reads beyond it.
struct Activations {
  Activations(const KernelTable& table, std::vector<float> x, std::int64_t tokens, std::int64_t cols);
  QuantizedRows quantized();
  /// A token's block in the layout of the kernels' tiles.
  struct Block {
    std::vector<int> values;  ///< [32]
    float scale, sum;
    std::vector<int> sub_sums;  ///< [2]
    std::int32_t compensation = 0;
    std::vector<int> sub_compensation;  ///< [2][2]
    bool operator==(const Block&) const = default;
  };
  Block block(std::int64_t token, std::int64_t index) const;

  std::vector<float> x;
  std::vector<std::byte> data;
  std::int64_t tokens, blocks;
  int tile_columns;
};

/// The weights of a product: as in the file, or repacked for the kernels of a table.
struct Weights {
  Weights(TensorType type, std::vector<std::byte> file, std::int64_t rows, std::int64_t cols);
  void pack(const KernelTable& table);

  TensorType type;
  std::vector<std::byte> bytes;
  std::int64_t rows, cols;
  std::size_t row_bytes;
  bool packed = false;
};

std::vector<float> multiply(const KernelTable& table, const Weights& weights, Activations& x);
/// The same with the panels of `table`, if it has any.
std::vector<float> multiply_packed(const KernelTable& table, Weights weights, Activations& x);

std::vector<std::uint32_t> bits(const std::vector<float>& values);

}  // namespace yamata::cpu
