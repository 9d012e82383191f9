#pragma once
// The matrix product with weights that are floats. Uses the vector layer that was included before this: a vector holds 16 consecutive
// weights of a row.
//
// A tile is some rows times some tokens; all its sums are in registers, and weights are converted to float32 once per tile. The shape of a
// tile does not change the order of summation of any result, so it does not change the result.
#include <cstddef>
#include <cstdint>

#include "node/cpu/kernels/kernels.hpp"

namespace yamata::cpu {
namespace {

template <int kTileRows, int kColumns>
struct Sums {
  F32x16 at[kTileRows][kColumns];
  Sums() {
    for (auto& row : at)
      for (auto& sum : row) sum = set1(0.0f);
  }
};

template <int kTileRows, int kColumns>
inline void write_tile(const MatmulArgs& a, std::int64_t row, std::int64_t token, const Sums<kTileRows, kColumns>& sums) {
  for (int c = 0; c < kColumns; ++c) {
    for (int r = 0; r < kTileRows; ++r) {
      float* y = a.y + (token + c) * a.ldy + row + r;
      const float value = reduce_add(sums.at[r][c]);
      *y = a.add ? *y + value : value;
    }
  }
}

struct WeightsF32 {
  using Element = float;
  static F32x16 widen(const Element* p) { return load(p); }
};
struct WeightsF16 {
  using Element = std::uint16_t;
  static F32x16 widen(const Element* p) { return load_f16(p); }
};
struct WeightsBF16 {
  using Element = std::uint16_t;
  static F32x16 widen(const Element* p) { return load_bf16(p); }
};

template <class Weights, int kTileRows, int kColumns>
void float_tile(const MatmulArgs& a, std::int64_t row, std::int64_t token) {
  using Element = typename Weights::Element;
  const Element* w[kTileRows];
  for (int r = 0; r < kTileRows; ++r) {
    w[r] = reinterpret_cast<const Element*>(a.weights + static_cast<std::size_t>(row + r) * a.row_bytes);
  }
  const float* x = a.x + token * a.cols;
  Sums<kTileRows, kColumns> sums;
  const std::int64_t whole = a.cols / 16 * 16;
  for (std::int64_t i = 0; i < whole; i += 16) {
#pragma GCC unroll 2
    for (int r = 0; r < kTileRows; ++r) {
      const F32x16 weights = Weights::widen(w[r] + i);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) sums.at[r][c] = fma(weights, load(x + c * a.cols + i), sums.at[r][c]);
    }
  }
  if (whole != a.cols) {
    const std::size_t rest = static_cast<std::size_t>(a.cols - whole);
    for (int r = 0; r < kTileRows; ++r) {
      Element tail[16] = {};
      __builtin_memcpy(tail, w[r] + whole, rest * sizeof(Element));
      for (int c = 0; c < kColumns; ++c) {
        float values[16] = {};
        __builtin_memcpy(values, x + c * a.cols + whole, rest * sizeof(float));
        sums.at[r][c] = fma(Weights::widen(tail), load(values), sums.at[r][c]);
      }
    }
  }
  write_tile(a, row, token, sums);
}

/// Rows [row, row_end) of `count` tokens, 1 to kColumns. A single token takes two rows at once, so that the additions of two rows overlap.
template <class Weights, int kColumns>
inline void float_rows(const MatmulArgs& a, std::int64_t row, std::int64_t row_end, std::int64_t token, std::int64_t count) {
  if constexpr (kColumns > 1) {
    if (count < kColumns) return float_rows<Weights, kColumns - 1>(a, row, row_end, token, count);
  }
  if constexpr (kColumns == 1) {
    for (; row + 1 < row_end; row += 2) float_tile<Weights, 2, 1>(a, row, token);
  }
  for (; row < row_end; ++row) float_tile<Weights, 1, kColumns>(a, row, token);
}

/// Blocks of 16 rows stay in the L1 cache while all tokens are multiplied with them.
template <class Weights>
void matmul_floats(const MatmulArgs& a) {
  constexpr std::int64_t kBlockRows = 16;
  for (std::int64_t row = a.row_begin; row < a.row_end; row += kBlockRows) {
    const std::int64_t row_end = row + kBlockRows < a.row_end ? row + kBlockRows : a.row_end;
    for (std::int64_t token = 0; token < a.tokens; token += kFloatColumns) {
      const std::int64_t left = a.tokens - token;
      float_rows<Weights, kFloatColumns>(a, row, row_end, token, left < kFloatColumns ? left : kFloatColumns);
    }
  }
}

}  // namespace
}  // namespace yamata::cpu
