#pragma once
// Products of quantized weights with few tokens: bound by the memory bandwidth for the weights.
//
// One thread block per panel of 32 rows. In each stage, the warps divide the panel's blocks of 32 columns among themselves, and write
// integer sums and scales into shared memory. Then one warp per token, with one lane per row, adds the floats in the order of the blocks.
#include "node/cuda/device_kernels.hpp"
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/panel_blocks.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kFewThreads = 256, kFewWarps = kFewThreads / simt::kWarp;

/// Blocks of 32 columns per stage: two stages fit into shared memory.
template <int kTokens>
constexpr int kStageBlocks = kTokens <= 2   ? 32
                             : kTokens <= 8 ? 16
                                            : 8;

/// A stage's results, [block][row].
template <class Block, int kTokens>
struct FewShared {
  static constexpr bool kHasMin = cpu::kPanelFormat<Block>.has_min(), kHasSubMin = kHasMin && cpu::kPanelFormat<Block>.has_sub_blocks();
  struct Stage {
    int whole[kStageBlocks<kTokens>][kTokens][kPanelRows];
    float d[kStageBlocks<kTokens>][kPanelRows];
    float m[kHasMin ? kStageBlocks<kTokens> : 1][kPanelRows];
    std::uint16_t sub_min[kHasSubMin ? kStageBlocks<kTokens> : 1][kPanelRows];  // two bytes
  } stages[2];                                                                  // double buffer: one is computed, one added up
};

/// Number of panels that contain rows of a part.
constexpr std::int64_t panels_of(const ProductArgs::Part& part) {
  return part.begin < part.end ? divide_up(part.end, kPanelRows) - part.begin / kPanelRows : 0;
}

/// The part to which a panel of the launch belongs; `panel` becomes the index from the part's row 0.
YAMATA_DEVICE const ProductArgs::Part& part_of(const ProductArgs& a, std::int64_t& panel) {
  int i = 0;
  for (; i + 1 < a.part_count && panel >= panels_of(a.parts[i]); ++i) panel -= panels_of(a.parts[i]);
  panel += a.parts[i].begin / kPanelRows;
  return a.parts[i];
}

/// The 32 activations of one block of a token.
struct ActivationWords {
  simt::Words4 half[2];
  YAMATA_DEVICE ActivationWords(const DeviceRows& x8, std::int64_t token, std::int64_t block) {
    const auto* words = reinterpret_cast<const simt::Words4*>(x8.values + (token * x8.blocks + block) * 32);
    half[0] = words[0], half[1] = words[1];
  }
  YAMATA_DEVICE std::uint32_t step(int i) const { return half[i / 4].word[i % 4]; }
};

/// The integer dot product of a row's block and a token's block.
template <class Block>
YAMATA_DEVICE int whole_sum(const std::uint32_t (&steps)[8], const RowScales& scales, const ActivationWords& x) {
  int sums[2] = {0, 0};
  for (int i = 0; i < 8; ++i) sums[i / 4] = simt::dot4(steps[i], x.step(i), sums[i / 4]);
  if constexpr (cpu::kPanelFormat<Block>.has_sub_blocks()) return scales.sub[0] * sums[0] + scales.sub[1] * sums[1];
  return sums[0] + sums[1];
}

/// Adds a block to a floating-point sum: first its products, then the part of its minimum.
template <class Block>
YAMATA_DEVICE float add_block(float sum, int whole, float d, float m, int sub_min0, int sub_min1, float x_scale,
                              const std::int16_t* sub_sums) {
  constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Block>;
  sum = simt::fma(static_cast<float>(whole), d * x_scale, sum);
  if constexpr (kFormat.has_min() && kFormat.has_sub_blocks())
    return simt::fma(static_cast<float>(sub_min0 * sub_sums[0] + sub_min1 * sub_sums[1]), m * x_scale, sum);
  if constexpr (kFormat.has_min()) return simt::fma(m, x_scale * static_cast<float>(sub_sums[0] + sub_sums[1]), sum);
  return sum;
}

/// Computes a stage: each warp its blocks, into shared memory.
template <class Block, int kTokens>
YAMATA_DEVICE void multiply_stage(const ProductArgs& a, const std::byte* panel, std::int64_t first,
                                  typename FewShared<Block, kTokens>::Stage& stage) {
  using Shared = FewShared<Block, kTokens>;
  const int row = static_cast<int>(simt::lane());
  for (int b = static_cast<int>(simt::warp()); b < kStageBlocks<kTokens>; b += static_cast<int>(kFewWarps)) {
    if (!simt::within(first + b, a.x8.blocks)) return;
    const PanelBlock<Block> block(panel, first + b);
    const RowScales scales = block.scales(row);
    const BlockWords<Block> words = block.words(row);
    std::uint32_t steps[8];
    for (int i = 0; i < 8; ++i) steps[i] = step_word<Block>(words, i);
    for (int t = 0; t < kTokens; ++t) {
      if (!simt::within(t, a.tokens)) break;
      stage.whole[b][t][row] = whole_sum<Block>(steps, scales, ActivationWords(a.x8, t, first + b));
    }
    stage.d[b][row] = scales.d;
    if constexpr (Shared::kHasMin) stage.m[b][row] = scales.m;
    if constexpr (Shared::kHasSubMin) stage.sub_min[b][row] = static_cast<std::uint16_t>(scales.sub_min[0] | scales.sub_min[1] << 8);
  }
}

/// Adds a stage to the sum of one token and the lane's row.
template <class Block, int kTokens>
YAMATA_DEVICE float add_stage(const ProductArgs& a, std::int64_t token, std::int64_t first,
                              const typename FewShared<Block, kTokens>::Stage& stage, float sum) {
  using Shared = FewShared<Block, kTokens>;
  const unsigned row = simt::lane();
  for (int b = 0; b < kStageBlocks<kTokens>; ++b) {
    if (!simt::within(first + b, a.x8.blocks)) break;
    const std::int64_t at = token * a.x8.blocks + first + b;
    float m = 0;
    int sub_mins = 0;
    if constexpr (Shared::kHasMin) m = stage.m[b][row];
    if constexpr (Shared::kHasSubMin) sub_mins = stage.sub_min[b][row];
    sum = add_block<Block>(sum, stage.whole[b][token][row], stage.d[b][row], m, sub_mins & 255, sub_mins >> 8, a.x8.scales[at],
                           a.x8.sub_sums + 2 * at);
  }
  return sum;
}

template <class Block, int kTokens>
YAMATA_KERNEL void YAMATA_BOUNDS(kFewThreads) few_tokens(const ProductArgs a) {
  constexpr int kOwn = (kTokens + static_cast<int>(kFewWarps) - 1) / static_cast<int>(kFewWarps);
  auto* stages = simt::shared<FewShared<Block, kTokens>>()->stages;
  std::int64_t panel = simt::block_x();
  const ProductArgs::Part& part = part_of(a, panel);
  const std::byte* weights = part.panels + static_cast<std::size_t>(panel) * kPanelRows * a.row_bytes;
  float sums[kOwn] = {};
  for (std::int64_t first = 0, s = 0; first < a.x8.blocks; first += kStageBlocks<kTokens>, ++s) {
    multiply_stage<Block, kTokens>(a, weights, first, stages[s % 2]);
    simt::sync_block();
    for (int i = 0; i < kOwn; ++i) {
      const std::int64_t token = simt::warp() + i * kFewWarps;
      if (token < kTokens && simt::within(token, a.tokens)) sums[i] = add_stage<Block, kTokens>(a, token, first, stages[s % 2], sums[i]);
    }
  }
  const std::int64_t row = panel * kPanelRows + simt::lane();
  for (int i = 0; i < kOwn; ++i) {
    const std::int64_t token = simt::warp() + i * kFewWarps;
    if (!simt::within(token, a.tokens) || !simt::within(row, part.end) || row < part.begin) continue;
    float* y = part.y + token * part.ldy + row;
    *y = a.add ? *y + sums[i] : sums[i];
  }
}

inline unsigned panels_of(const ProductArgs& a) {
  std::int64_t panels = 0;
  for (int i = 0; i < a.part_count; ++i) panels += panels_of(a.parts[i]);
  return static_cast<unsigned>(panels);
}

template <class Block, int kTokens>
void launch_few(const ProductArgs& a, Stream stream) {
  static_assert(sizeof(FewShared<Block, kTokens>) <= 48 << 10);
  simt::launch(&few_tokens<Block, kTokens>, {panels_of(a), 1}, kFewThreads, sizeof(FewShared<Block, kTokens>), stream, a);
}

template <class Block>
void multiply_few(const ProductArgs& a, Stream stream) {
  if (a.tokens == 1) return launch_few<Block, 1>(a, stream);
  if (a.tokens == 2) return launch_few<Block, 2>(a, stream);
  if (a.tokens <= 4) return launch_few<Block, 4>(a, stream);
  if (a.tokens <= 8) return launch_few<Block, 8>(a, stream);
  launch_few<Block, 16>(a, stream);
}

}  // namespace
}  // namespace yamata::cuda
