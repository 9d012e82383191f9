#pragma once
// What all products of quantized weights share: panels of parts, and the terms of a block.
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"
#include "node/cuda/kernels/panel_blocks.hpp"

namespace yamata::cuda {
namespace {

/// Number of panels that contain rows of a part.
constexpr std::int64_t panels_of(const ProductArgs::Part& part) {
  return part.begin < part.end ? divide_up(part.end, kPanelRows) - part.begin / kPanelRows : 0;
}

inline unsigned panels_of(const ProductArgs& a) {
  std::int64_t panels = 0;
  for (int i = 0; i < a.part_count; ++i) panels += panels_of(a.parts[i]);
  return static_cast<unsigned>(panels);
}

/// The panel of a thread block, which is that with number block_x of all parts.
struct PanelOfPart {
  const ProductArgs::Part* part;
  std::int64_t panel;  ///< from row 0 of the part's matrix

  YAMATA_DEVICE explicit PanelOfPart(const ProductArgs& a) : panel(simt::block_x()) {
    int i = 0;
    for (; i + 1 < a.part_count && panel >= panels_of(a.parts[i]); ++i) panel -= panels_of(a.parts[i]);
    part = &a.parts[i];
    panel += part->begin / kPanelRows;
  }
  YAMATA_DEVICE const std::uint8_t* weights(const ProductArgs& a) const {
    return reinterpret_cast<const std::uint8_t*>(part->panels) + static_cast<std::size_t>(panel) * kPanelRows * a.row_bytes;
  }
  /// The result of a token and a row of the panel, if it is one of the part.
  YAMATA_DEVICE void store(const ProductArgs& a, std::int64_t token, unsigned row_of_panel, float sum) const {
    const std::int64_t row = panel * kPanelRows + row_of_panel;
    if (!simt::within(row, part->end) || row < part->begin) return;
    float* y = part->y + token * part->ldy + row;
    *y = a.add ? *y + sum : sum;
  }
};

/// The integer sum of a row's block and a token's block, from the sums of its halves.
template <class Block>
YAMATA_DEVICE int whole_sum(const int (&sums)[2], const RowScales& scales) {
  if constexpr (cpu::kPanelFormat<Block>.has_sub_blocks()) return scales.sub[0] * sums[0] + scales.sub[1] * sums[1];
  return sums[0] + sums[1];
}

// Whole numbers below 2^22 are added to the bits of kRound, which makes them the floats kRound + number: a subtraction converts them.
constexpr int kRoundBits = 0x4b400000;
YAMATA_DEVICE float float_of_sum(int bits) { return simt::float_of_bits(static_cast<std::uint32_t>(bits)) - kRound; }

/// Two sums of 16 activations each, in one word.
YAMATA_DEVICE int first_half(std::uint32_t sums) { return static_cast<std::int16_t>(sums); }
YAMATA_DEVICE int second_half(std::uint32_t sums) { return static_cast<std::int16_t>(sums >> 16); }

/// What a block's minimum is multiplied by: the scaled sum of its activations; if the block has sub-blocks, the sum weighted by theirs.
YAMATA_DEVICE float scaled_sum(float x_scale, std::uint32_t x_sums) {
  return x_scale * static_cast<float>(first_half(x_sums) + second_half(x_sums));
}
YAMATA_DEVICE float sub_minimum(const RowScales& scales, std::uint32_t x_sums) {
  return static_cast<float>(scales.sub_min[0] * first_half(x_sums) + scales.sub_min[1] * second_half(x_sums));
}

/// On tensor cores, a lane multiplies two steps of a block. They are adjacent, and so in one word, if the halves of a block have the same
/// scale.
template <class Block>
constexpr bool kAdjacentSteps = !cpu::kPanelFormat<Block>.has_sub_blocks() && cpu::kPanelFormat<Block>.low_bits <= 4;
template <class Block>
YAMATA_DEVICE unsigned lane_step(unsigned i) {
  return kAdjacentSteps<Block> ? 2 * (simt::lane() % 4) + i : simt::lane() % 4 + 4 * i;
}

/// Stages of a ring in shared memory, at most `most`, if each has this size and `rest` bytes are beside them.
constexpr unsigned ring_stages(std::size_t stage_bytes, std::size_t rest, unsigned most) {
  constexpr std::size_t kMaxBytes = 64 << 10;
  const auto fitting = static_cast<unsigned>((kMaxBytes - rest) / stage_bytes);
  return fitting < most ? fitting : most;
}

/// The factors of what a block adds to a sum: its products, and the part of its minimum, if the format has one.
template <bool kHasMin>
struct alignas(kHasMin ? 16 : 8) BlockTerms {
  float factors[kHasMin ? 4 : 2];

  template <class Block>
  static YAMATA_DEVICE BlockTerms of(int whole, const RowScales& scales, float x_scale, std::uint32_t x_sums) {
    BlockTerms terms;
    terms.factors[0] = static_cast<float>(whole), terms.factors[1] = scales.d * x_scale;
    if constexpr (kHasMin && cpu::kPanelFormat<Block>.has_sub_blocks()) {
      terms.factors[2] = sub_minimum(scales, x_sums);
      terms.factors[3] = scales.m * x_scale;
    } else if constexpr (kHasMin) {
      terms.factors[2] = scales.m, terms.factors[3] = scaled_sum(x_scale, x_sums);
    }
    return terms;
  }
  YAMATA_DEVICE float add_to(float sum) const {
    sum = simt::fma(factors[0], factors[1], sum);
    if constexpr (kHasMin) sum = simt::fma(factors[2], factors[3], sum);
    return sum;
  }
};

}  // namespace
}  // namespace yamata::cuda
