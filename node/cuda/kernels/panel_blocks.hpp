#pragma once
// Blocks of quantized weights in the layout of panels of 32 rows (node/cpu/kernels/panel.hpp). Each lane of a warp reads one row.
#include "node/cpu/kernels/panel.hpp"
#include "node/cuda/simt.hpp"

namespace yamata::cuda {
namespace {

constexpr int kPanelRows = 32;

/// The scales of one row of a block.
struct RowScales {
  float d, m;
  int sub[2], sub_min[2];
};

/// The quantized values of one row of a block, in their bit planes.
template <class Block>
struct BlockWords {
  static constexpr int kLow = cpu::kPanelFormat<Block>.low_bits, kHigh = cpu::kPanelFormat<Block>.high_bits;
  std::uint32_t low[kLow], high[kHigh > 0 ? kHigh : 1];
};

/// The position of block `block` in a panel: its group, and its index in the group.
template <class Block>
struct PanelBlock {
  static constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Block>;
  const std::uint8_t* group;
  int index;

  YAMATA_DEVICE PanelBlock(const std::byte* panel, std::int64_t block)
      : group(reinterpret_cast<const std::uint8_t*>(panel) + block / kFormat.blocks() * (kFormat.group_bytes() * kPanelRows)),
        index(static_cast<int>(block % kFormat.blocks())) {}

  YAMATA_DEVICE BlockWords<Block> words(int row) const {
    constexpr int kBefore = (kFormat.half_bytes() + kFormat.scale_bytes()) * kPanelRows;
    const auto* planes = reinterpret_cast<const std::uint32_t*>(group + kBefore + index * (kFormat.block_bytes() * kPanelRows));
    BlockWords<Block> out{};
    for (int i = 0; i < kFormat.low_bits; ++i) out.low[i] = planes[i * kPanelRows + row];
    for (int i = 0; i < kFormat.high_bits; ++i) out.high[i] = planes[(kFormat.low_bits + i) * kPanelRows + row];
    return out;
  }

  YAMATA_DEVICE RowScales scales(int row) const {
    [[maybe_unused]] const auto* halves = reinterpret_cast<const std::uint16_t*>(group);
    RowScales out{0, 0, {}, {}};
    if constexpr (kFormat.scales == cpu::Scales::kExponent)
      out.d = power_of(group[row]);
    else if constexpr (kFormat.scales == cpu::Scales::kFloatSubSix)
      out.d = reinterpret_cast<const float*>(group)[row];
    else
      out.d = simt::half_to_float(halves[row]);
    if constexpr (kFormat.has_min()) out.m = simt::half_to_float(halves[kPanelRows + row]);
    [[maybe_unused]] const std::uint8_t* numbers = group + kFormat.half_bytes() * kPanelRows;
    [[maybe_unused]] const int at = index * kPanelRows + row;
    if constexpr (kFormat.scales == cpu::Scales::kBlockSixMin) {
      out.d *= static_cast<float>(six<16 * kPanelRows>(numbers, at));
      out.m *= -static_cast<float>(six<16 * kPanelRows>(numbers, at + 8 * kPanelRows));
    } else if constexpr (kFormat.scales == cpu::Scales::kBlockSix) {
      out.d *= static_cast<float>(six<8 * kPanelRows>(numbers, at) - 32);
    } else if constexpr (kFormat.has_sub_blocks()) {
      out.m = -out.m;
      for (int i = 0; i < 2; ++i) {
        if constexpr (kFormat.has_six())
          out.sub[i] = six<16 * kPanelRows>(numbers, 2 * at + i) - 32;
        else if constexpr (kFormat.scales == cpu::Scales::kSubByte)
          out.sub[i] = static_cast<std::int8_t>(numbers[2 * at + i]);
        else
          out.sub[i] = numbers[2 * at + i] & 15, out.sub_min[i] = numbers[2 * at + i] >> 4;
      }
    }
    return out;
  }

 private:
  /// 2 to the power e - 128.
  static YAMATA_DEVICE float power_of(std::uint32_t e) { return simt::float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23); }
  /// Value i of kCount values of six bits, stored in two planes.
  template <int kCount>
  static YAMATA_DEVICE int six(const std::uint8_t* planes, int i) {
    const int low = planes[i % (kCount / 2)] >> (i / (kCount / 2) * 4) & 15;
    const int high = planes[kCount / 2 + i % (kCount / 4)] >> (i / (kCount / 4) * 2) & 3;
    return low | high << 4;
  }
};

constexpr std::uint32_t four_times(int byte) { return static_cast<std::uint32_t>(byte) * 0x01010101u; }

/// Four consecutive values of a table.
constexpr std::uint32_t four_values(const std::int8_t* table) {
  std::uint32_t word = 0;
  for (int i = 3; i >= 0; --i) word = word << 8 | static_cast<std::uint8_t>(table[i]);
  return word;
}

template <cpu::Values kValues, int kQuarter>
constexpr std::uint32_t kFourValues = four_values(cpu::table_of(kValues) + 4 * kQuarter);

/// Looks up four values of a table by four indices below 16.
template <cpu::Values kValues>
YAMATA_DEVICE std::uint32_t look_up(std::uint32_t numbers) {
  // A selector has four bits for each byte: three for the position in a pair of words, and one for the pair.
  const std::uint32_t two = (numbers | numbers >> 4) & 0x00ff00ffu, selector = (two | two >> 8) & 0xffffu;
  const std::uint32_t low = simt::byte_permute(kFourValues<kValues, 0>, kFourValues<kValues, 1>, selector & 0x7777u);
  const std::uint32_t high = simt::byte_permute(kFourValues<kValues, 2>, kFourValues<kValues, 3>, selector & 0x7777u);
  return simt::byte_permute(low, high, 0x3210u | (selector & 0x8888u) >> 1);
}

/// Weights 4 kStep to 4 kStep + 3 as signed bytes, with the zero point subtracted.
template <class Block>
YAMATA_DEVICE std::uint32_t step_word(const BlockWords<Block>& words, int step) {
  constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Block>;
  if constexpr (kFormat.low_bits == 8) {
    return words.low[step];
  } else {
    constexpr int kSteps = 8 / kFormat.low_bits;
    std::uint32_t numbers = words.low[step / kSteps] >> step % kSteps * kFormat.low_bits & four_times((1 << kFormat.low_bits) - 1);
    if constexpr (kFormat.high_bits > 0) {
      constexpr int kHighSteps = 8 / kFormat.high_bits;
      const std::uint32_t high = words.high[step / kHighSteps] >> step % kHighSteps * kFormat.high_bits;
      numbers |= (high & four_times((1 << kFormat.high_bits) - 1)) << kFormat.low_bits;
    }
    if constexpr (kFormat.lookup()) return look_up<kFormat.values>(numbers);
    // A subtraction in each byte: the highest bit is set meanwhile, so there is no borrow from the next byte.
    if constexpr (kFormat.zero_point > 0) return ((numbers | four_times(128)) - four_times(kFormat.zero_point)) ^ four_times(128);
    return numbers;
  }
}

}  // namespace
}  // namespace yamata::cuda
