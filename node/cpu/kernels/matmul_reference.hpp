#pragma once
// The matrix product with quantized weights in plain loops: the reference that every other instruction set must equal bit for bit.
#include <cstring>

#include "node/cpu/kernels/half.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/kernels/panel.hpp"
#include "node/cpu/kernels/row_group.hpp"
#include "node/cpu/kernels/small_group.hpp"

namespace yamata::cpu {
namespace {

constexpr int kRows = 0, kTileColumns = 1;

/// 32 activations of a token.
struct ActivationBlock {
  std::int8_t values[32];
  float scale, sum;
  std::int16_t sub_sums[2];
  std::int32_t compensation;
  std::int16_t sub_compensation[4];
};
static_assert(sizeof(ActivationBlock) == kActivationBlockBytes);

/// The products of one block of one row, a sum for each half.
template <class Panel>
inline void whole_sums(const std::uint32_t* steps, const ActivationBlock& x, std::int32_t* sums) {
  constexpr PanelFormat kFormat = kPanelFormat<Panel>;
  for (int i = 0; i < 32; ++i) {
    const auto number = static_cast<std::uint8_t>(steps[i / 4] >> i % 4 * 8);
    constexpr const std::int8_t* kTable = table_of(kFormat.values);
    int weight = number - kFormat.zero_point;
    if constexpr (kFormat.lookup())
      weight = kTable[number];
    else if constexpr (kFormat.is_signed())
      weight = static_cast<std::int8_t>(number);
    sums[i / 16] += weight * x.values[i];
  }
}

template <class Panel>
inline float add_block(const RowGroup& g, int block, const ActivationBlock& x, float sum) {
  constexpr PanelFormat kFormat = kPanelFormat<Panel>;
  constexpr int kZeroPoint = kFormat.scales == Scales::kBlockSix || kFormat.has_six() ? 32 : 0;
  float d = half_to_float(g.d), m = half_to_float(g.m);
  if constexpr (kFormat.scales == Scales::kExponent) d = half_power_of_two(static_cast<std::uint8_t>(g.d));
  if constexpr (kFormat.scales == Scales::kFloatSubSix) d *= g.scale;
  std::int32_t whole[2] = {0, 0};
  whole_sums<Panel>(g.steps[block], x, whole);
  std::int32_t total = whole[0] + whole[1];
  if constexpr (kFormat.has_sub_blocks()) {
    total = 0;
    std::int32_t minimum = 0;
    for (int sub = 0; sub < 2; ++sub) {
      total += (static_cast<std::int8_t>(g.scales[2 * block + sub]) - kZeroPoint) * whole[sub];
      minimum += g.mins[2 * block + sub] * x.sub_sums[sub];
    }
    sum = __builtin_fmaf(static_cast<float>(total), d * x.scale, sum);
    return kFormat.has_min() ? __builtin_fmaf(static_cast<float>(minimum), -m * x.scale, sum) : sum;
  }
  if constexpr (kFormat.grouped()) {
    d *= static_cast<float>(g.scales[block] - kZeroPoint);
    m *= -static_cast<float>(g.mins[block]);
  }
  sum = __builtin_fmaf(static_cast<float>(total), d * x.scale, sum);
  return kFormat.has_min() ? __builtin_fmaf(m, x.sum, sum) : sum;
}

template <class Block>
inline float dot_row(const MatmulArgs& a, std::int64_t row, std::int64_t token) {
  const std::byte* w = a.weights + static_cast<std::size_t>(row) * a.row_bytes;
  const std::byte* x = a.quantized.data + token * a.quantized.blocks * kActivationBlockBytes;
  float sum = 0.0f;
  for (const std::byte* end = w + a.row_bytes; w != end; w += sizeof(Block)) {
    Block block;
    std::memcpy(&block, w, sizeof block);
    RowGroup group;
    unpack(block, group);
    for (int i = 0; i < kPanelFormat<PanelBlockOf<Block>>.blocks(); ++i, x += kActivationBlockBytes) {
      ActivationBlock activations;
      std::memcpy(&activations, x, sizeof activations);
      sum = add_block<PanelBlockOf<Block>>(group, i, activations, sum);
    }
  }
  return sum;
}

template <class Block>
void matmul(const MatmulArgs& a) {
  for (std::int64_t row = a.row_begin; row < a.row_end; ++row) {
    for (std::int64_t token = 0; token < a.tokens; ++token) {
      float* y = a.y + token * a.ldy + row;
      const float sum = dot_row<Block>(a, row, token);
      *y = a.add ? *y + sum : sum;
    }
  }
}

}  // namespace
}  // namespace yamata::cpu
