#pragma once
// Blocks of quantized weights in the layout of panels of 32 rows (node/cpu/kernels/panel.hpp). Each lane of a warp reads one row.
#include "node/cpu/kernels/panel.hpp"
#include "node/cuda/simt.hpp"

namespace yamata::cuda {
namespace {

constexpr int kPanelRows = 32;

/// What a panel stores of the scales of one row of a block: some of this, depending on the format. Each has a register of its own, because
/// putting two into one would wait for both.
struct StoredScales {
  std::uint32_t d, m, numbers[4];
};

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

  /// Loads only: what is loaded ahead is decoded when it is used.
  YAMATA_DEVICE StoredScales stored_scales(int row) const {
    [[maybe_unused]] const auto* halves = reinterpret_cast<const std::uint16_t*>(group);
    StoredScales out{};
    if constexpr (kFormat.scales == cpu::Scales::kExponent)
      out.d = group[row];
    else if constexpr (kFormat.scales == cpu::Scales::kFloatSubSix)
      out.d = reinterpret_cast<const std::uint32_t*>(group)[row];
    else
      out.d = halves[row];
    if constexpr (kFormat.has_min()) out.m = halves[kPanelRows + row];
    [[maybe_unused]] const std::uint8_t* numbers = group + kFormat.half_bytes() * kPanelRows;
    if constexpr (kFormat.scale_bits() == 6 && kFormat.grouped()) {
      for (int i = 0; i < kNumbers; ++i) {
        const int at = number(row, i);
        out.numbers[2 * i] = numbers[at % (kPlane / 2)];
        out.numbers[2 * i + 1] = numbers[kPlane / 2 + at % (kPlane / 4)];
      }
    } else if constexpr (kFormat.grouped()) {
      for (int i = 0; i < kNumbers; ++i) out.numbers[i] = numbers[number(row, i)];
    }
    return out;
  }

  YAMATA_DEVICE RowScales decode(const StoredScales& stored, int row) const {
    RowScales out{0, 0, {}, {}};
    if constexpr (kFormat.scales == cpu::Scales::kExponent)
      out.d = power_of(stored.d);
    else if constexpr (kFormat.scales == cpu::Scales::kFloatSubSix)
      out.d = simt::float_of_bits(stored.d);
    else
      out.d = simt::half_to_float(static_cast<std::uint16_t>(stored.d));
    if constexpr (kFormat.has_min()) out.m = simt::half_to_float(static_cast<std::uint16_t>(stored.m));
    if constexpr (kFormat.scales == cpu::Scales::kBlockSixMin) {
      out.d *= static_cast<float>(six(stored, row, 0));
      out.m *= -static_cast<float>(six(stored, row, 1));
    } else if constexpr (kFormat.scales == cpu::Scales::kBlockSix) {
      out.d *= static_cast<float>(six(stored, row, 0) - 32);
    } else if constexpr (kFormat.has_sub_blocks()) {
      out.m = -out.m;
      for (int i = 0; i < 2; ++i) {
        if constexpr (kFormat.has_six())
          out.sub[i] = six(stored, row, i) - 32;
        else if constexpr (kFormat.scales == cpu::Scales::kSubByte)
          out.sub[i] = static_cast<std::int8_t>(stored.numbers[i]);
        else
          out.sub[i] = static_cast<int>(stored.numbers[i] & 15), out.sub_min[i] = static_cast<int>(stored.numbers[i] >> 4);
      }
    }
    return out;
  }

  YAMATA_DEVICE RowScales scales(int row) const { return decode(stored_scales(row), row); }

 private:
  /// 2 to the power e - 128.
  static YAMATA_DEVICE float power_of(std::uint32_t e) { return simt::float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23); }
  /// Quantized scales that a row of a block has; of a panel's group, all.
  static constexpr int kNumbers = kFormat.scale_numbers() / 8, kPlane = kFormat.scale_numbers() * kPanelRows;
  /// Index of number i of a row in its group.
  YAMATA_DEVICE int number(int row, int i) const {
    if constexpr (kFormat.scales == cpu::Scales::kBlockSixMin) return (i * 8 + index) * kPanelRows + row;
    return (index * kPanelRows + row) * kNumbers + i;
  }
  /// Number i of six bits, stored in two planes.
  YAMATA_DEVICE int six(const StoredScales& stored, int row, int i) const {
    const int at = number(row, i);
    const std::uint32_t low = stored.numbers[2 * i] >> (at / (kPlane / 2) * 4) & 15;
    const std::uint32_t high = stored.numbers[2 * i + 1] >> (at / (kPlane / 4) * 2) & 3;
    return static_cast<int>(low | high << 4);
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
