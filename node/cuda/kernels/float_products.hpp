#pragma once
// Products of floating-point weights. Half a warp computes a sum in 16 lanes; lane l adds columns l, l + 16, l + 32 and so on.
//
// A packed row consists of groups of 128 columns. The 8 weights that a lane reads of a group are adjacent. Padding is not read.
#include <cstring>

#include "node/cuda/device_kernels.hpp"
#include "node/cuda/kernels/arithmetic.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kFloatThreads = 256, kFloatLanes = 16, kFloatRows = kFloatThreads / kFloatLanes;  // per thread block
constexpr int kFloatSteps = 8;                                                                       // weights of a lane in a group
constexpr std::int64_t kFloatGroup = kFloatSteps * kFloatLanes;

struct FloatWeights {
  using Element = float;
  static YAMATA_DEVICE float widen(Element x) { return x; }
};
struct HalfWeights {
  using Element = std::uint16_t;
  static YAMATA_DEVICE float widen(Element x) { return simt::half_to_float(x); }
};
struct BrainWeights {
  using Element = std::uint16_t;
  static YAMATA_DEVICE float widen(Element x) { return simt::float_of_bits(static_cast<std::uint32_t>(x) << 16); }
};

/// Elements of a packed row.
constexpr std::int64_t packed_cols(std::int64_t cols) { return divide_up(cols, kFloatGroup) * kFloatGroup; }

template <class Weights>
YAMATA_KERNEL void YAMATA_BOUNDS(kFloatThreads) pack_floats(const PackArgs a) {
  using Element = typename Weights::Element;
  const std::int64_t row = a.begin + simt::block_x(), cols = packed_cols(a.cols);
  const auto* source = reinterpret_cast<const Element*>(a.source + static_cast<std::size_t>(row) * a.row_bytes);
  Element* out = reinterpret_cast<Element*>(a.panels) + row * cols;
  for (std::int64_t i = simt::thread(); i < cols; i += kFloatThreads) {
    const std::int64_t group = i / kFloatGroup * kFloatGroup, lane = i % kFloatGroup / kFloatSteps, step = i % kFloatSteps;
    const std::int64_t col = group + step * kFloatLanes + lane;
    out[i] = simt::within(col, a.cols) ? source[col] : Element{0};
  }
}

/// A lane's weights of a group, loaded 16 bytes at a time.
template <class Weights>
struct LaneWeights {
  using Element = typename Weights::Element;
  Element at[kFloatSteps];
  YAMATA_DEVICE explicit LaneWeights(const Element* from) {
    constexpr int kLoads = kFloatSteps * static_cast<int>(sizeof(Element)) / static_cast<int>(sizeof(simt::Words4));
    simt::Words4 words[kLoads];
    for (int i = 0; i < kLoads; ++i) words[i] = reinterpret_cast<const simt::Words4*>(from)[i];
    std::memcpy(at, words, sizeof at);
  }
};

/// Thread blocks for the rows of a part.
constexpr std::int64_t float_blocks(const ProductArgs::Part& part) { return divide_up(part.end - part.begin, kFloatRows); }

template <class Weights, int kTokens>
YAMATA_KERNEL void YAMATA_BOUNDS(kFloatThreads) multiply_floats(const ProductArgs a) {
  const unsigned lane = simt::thread() % kFloatLanes;
  std::int64_t block = simt::block_x();
  int p = 0;
  for (; p + 1 < a.part_count && block >= float_blocks(a.parts[p]); ++p) block -= float_blocks(a.parts[p]);
  const ProductArgs::Part& part = a.parts[p];
  const std::int64_t row = part.begin + block * kFloatRows + simt::thread() / kFloatLanes, cols = packed_cols(a.cols);
  const bool has_row = simt::within(row, part.end);
  const std::int64_t first_token = static_cast<std::int64_t>(simt::block_y()) * kTokens;
  const auto* w =
      reinterpret_cast<const typename Weights::Element*>(part.panels) + (has_row ? row : part.begin) * cols + lane * kFloatSteps;
  const float* x = a.x + first_token * a.cols + lane;
  // All lanes add the same number of columns; missing columns at the end are zeros, as on the CPU.
  const std::int64_t steps = divide_up(a.cols, kFloatLanes);
  float sums[kTokens] = {};
  for (std::int64_t first = 0; first < steps; first += kFloatSteps) {
    const LaneWeights<Weights> weights(w + first * kFloatLanes);
    for (int i = 0; i < kFloatSteps; ++i) {
      if (!simt::within(first + i, steps)) break;
      const std::int64_t col = (first + i) * kFloatLanes;
      const bool has_col = simt::within(col + lane, a.cols);
      for (int t = 0; t < kTokens; ++t) {
        if (!simt::within(first_token + t, a.tokens)) break;
        sums[t] = simt::fma(Weights::widen(weights.at[i]), has_col ? x[t * a.cols + col] : 0.0f, sums[t]);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    if (!simt::within(first_token + t, a.tokens)) break;
    const float sum = sum_of_16(sums[t]);
    if (lane != 0 || !has_row) continue;
    float* y = part.y + (first_token + t) * part.ldy + row;
    *y = a.add ? *y + sum : sum;
  }
}

template <class Weights, int kTokens>
void launch_floats(const ProductArgs& a, Stream stream) {
  std::int64_t blocks = 0;
  for (int i = 0; i < a.part_count; ++i) blocks += float_blocks(a.parts[i]);
  const simt::Grid grid{static_cast<unsigned>(blocks), static_cast<unsigned>(divide_up(a.tokens, kTokens))};
  if (blocks > 0) simt::launch(&multiply_floats<Weights, kTokens>, grid, kFloatThreads, 0, stream, a);
}

template <class Weights>
void multiply_float_rows(const ProductArgs& a, Stream stream) {
  if (a.tokens == 1) return launch_floats<Weights, 1>(a, stream);
  if (a.tokens <= 4) return launch_floats<Weights, 4>(a, stream);
  launch_floats<Weights, 8>(a, stream);
}

template <class Weights>
void pack_float_rows(const PackArgs& a, Stream stream) {
  if (a.begin < a.end) simt::launch(&pack_floats<Weights>, {static_cast<unsigned>(a.end - a.begin), 1}, kFloatThreads, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
