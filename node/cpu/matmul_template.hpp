#pragma once
// The matrix product, one template for all formats, over the vector layer included before this.
//
// A tile is kRows rows times kColumns tokens with all its sums in registers: weights are decoded once per tile.
// The shape of a tile never changes the order in which one result is summed, so it never changes the result.
#include <cstddef>
#include <cstdint>

#include "node/cpu/formats.hpp"
#include "node/cpu/kernels.hpp"

namespace yamata::cpu {
namespace {

template <int kRows, int kColumns>
struct Sums {
  F32x16 at[kRows][kColumns];
  Sums() {
    for (auto& row : at)
      for (auto& sum : row) sum = set1(0.0f);
  }
};

template <int kRows, int kColumns>
inline void write_tile(const MatmulArgs& a, std::int64_t row, std::int64_t token, const Sums<kRows, kColumns>& sums) {
  for (int c = 0; c < kColumns; ++c) {
    for (int r = 0; r < kRows; ++r) {
      float* y = a.y + (token + c) * a.ldy + row + r;
      const float value = reduce_add(sums.at[r][c]);
      *y = a.add ? *y + value : value;
    }
  }
}

/// Adds 64 weights of each row, elements 64*index and on, to the sums.
template <class Format, int kStep, int kRows, int kColumns>
inline __attribute__((always_inline)) void add_step(const MatmulArgs& a, std::int64_t token, std::int64_t index,
                                                    const typename Format::Block* const* blocks, const Scales* scales,
                                                    Sums<kRows, kColumns>& sums) {
  const QuantizedRows& x = a.quantized;
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r) {
    typename Format::Operand operand;
    prepare(Format::template weights<kStep>(blocks[r]), operand);
    const F32x16 scale = Format::template scale<kStep>(scales[r]);
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const std::int64_t begin = (token + c) * x.padded + 64 * index;
      const I32x16 product = dot(operand, load64(x.values + begin));
      F32x16 sum = fma(from_int(product), mul(scale, spread2(x.scales + begin / 32)), sums.at[r][c]);
      if constexpr (Format::kHasMin) sum = fma(Format::template min<kStep>(scales[r]), load(x.sums + begin / 4), sum);
      sums.at[r][c] = sum;
    }
  }
}

template <class Format, int kRows, int kColumns>
inline __attribute__((always_inline)) void add_group(const MatmulArgs& a, std::int64_t token, std::int64_t index,
                                                     const typename Format::Block* const* blocks, Sums<kRows, kColumns>& sums) {
  Scales scales[kRows];
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r) Format::open(blocks[r], scales[r]);
  add_step<Format, 0>(a, token, index, blocks, scales, sums);
  if constexpr (Format::kSteps == 4) {
    add_step<Format, 1>(a, token, index + 1, blocks, scales, sums);
    add_step<Format, 2>(a, token, index + 2, blocks, scales, sums);
    add_step<Format, 3>(a, token, index + 3, blocks, scales, sums);
  }
}

template <class Format, int kRows, int kColumns>
void quantized_tile(const MatmulArgs& a, std::int64_t row, std::int64_t token) {
  using Block = typename Format::Block;
  constexpr int kGroupBlocks = 64 * Format::kSteps / Format::kBlockElements;
  const std::int64_t groups = a.cols / (64 * Format::kSteps);
  const Block* blocks[kRows];
  for (int r = 0; r < kRows; ++r) {
    blocks[r] = reinterpret_cast<const Block*>(a.weights + static_cast<std::size_t>(row + r) * a.row_bytes);
  }
  Sums<kRows, kColumns> sums;
  for (std::int64_t g = 0; g < groups; ++g) {
    add_group<Format>(a, token, g * Format::kSteps, blocks, sums);
    for (int r = 0; r < kRows; ++r) blocks[r] += kGroupBlocks;
  }
  if constexpr (Format::kBlockElements == 32) {
    if (a.cols % 64 != 0) {  // one block left: the row may end where the file does, so its neighbour is never read
      Block pairs[kRows][2] = {};
      for (int r = 0; r < kRows; ++r) {
        pairs[r][0] = *blocks[r];
        blocks[r] = pairs[r];
      }
      add_group<Format>(a, token, groups, blocks, sums);
    }
  }
  write_tile(a, row, token, sums);
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

template <class Weights, int kRows, int kColumns>
void float_tile(const MatmulArgs& a, std::int64_t row, std::int64_t token) {
  using Element = typename Weights::Element;
  const Element* w[kRows];
  for (int r = 0; r < kRows; ++r) {
    w[r] = reinterpret_cast<const Element*>(a.weights + static_cast<std::size_t>(row + r) * a.row_bytes);
  }
  const float* x = a.x + token * a.cols;
  Sums<kRows, kColumns> sums;
  const std::int64_t whole = a.cols / 16 * 16;
  for (std::int64_t i = 0; i < whole; i += 16) {
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) {
      const F32x16 weights = Weights::widen(w[r] + i);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) sums.at[r][c] = fma(weights, load(x + c * a.cols + i), sums.at[r][c]);
    }
  }
  if (whole != a.cols) {
    const std::size_t rest = static_cast<std::size_t>(a.cols - whole);
    for (int r = 0; r < kRows; ++r) {
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

template <class Format>
struct QuantizedTile {
  template <int kRows, int kColumns>
  static void run(const MatmulArgs& a, std::int64_t row, std::int64_t token) {
    quantized_tile<Format, kRows, kColumns>(a, row, token);
  }
};

template <class Weights>
struct FloatTile {
  template <int kRows, int kColumns>
  static void run(const MatmulArgs& a, std::int64_t row, std::int64_t token) {
    float_tile<Weights, kRows, kColumns>(a, row, token);
  }
};

/// Rows [row, row_end) of `count` tokens, of 1 to kColumns. A single token takes two rows at once, so that the sums of
/// one row need not wait for each other.
template <class Tile, int kColumns>
inline void run_rows(const MatmulArgs& a, std::int64_t row, std::int64_t row_end, std::int64_t token, std::int64_t count) {
  if constexpr (kColumns > 1) {
    if (count < kColumns) return run_rows<Tile, kColumns - 1>(a, row, row_end, token, count);
  }
  if constexpr (kColumns == 1) {
    for (; row + 1 < row_end; row += 2) Tile::template run<2, 1>(a, row, token);
  }
  for (; row < row_end; ++row) Tile::template run<1, kColumns>(a, row, token);
}

/// Sixteen rows stay in the nearest cache while all tokens pass by them.
template <class Tile>
void matmul(const MatmulArgs& a) {
  constexpr std::int64_t kBlockRows = 16;
  for (std::int64_t row = a.row_begin; row < a.row_end; row += kBlockRows) {
    const std::int64_t row_end = row + kBlockRows < a.row_end ? row + kBlockRows : a.row_end;
    for (std::int64_t token = 0; token < a.tokens; token += kTileColumns) {
      const std::int64_t left = a.tokens - token;
      run_rows<Tile, kTileColumns>(a, row, row_end, token, left < kTileColumns ? left : kTileColumns);
    }
  }
}

}  // namespace
}  // namespace yamata::cpu
