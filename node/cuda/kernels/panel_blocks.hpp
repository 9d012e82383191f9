#pragma once
// Blocks of quantized weights in the layout of panels of 32 rows (node/cpu/kernels/panel.hpp). Each lane of a warp has one row.
#include "node/cpu/kernels/panel.hpp"
#include "node/cuda/kernels/simt.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kPanelRows = 32;

/// The scales of one row of a block.
struct RowScales {
  float d, m;
  int sub[2], sub_min[2];
};

/// The same, as they are in the panel.
struct RawScales {
  std::uint32_t d, m, low, high;  ///< low, high: the quantized scales' low and high bits
};

/// Where the parts of a block are, in bytes from the start of its panel. A row's word of a plane: words_at + (32 plane + row) words.
template <class Block>
struct BlockLayout {
  static constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Block>;
  static constexpr unsigned kBlocks = kFormat.blocks();  ///< of a group
  static constexpr unsigned kGroupBytes = kFormat.group_bytes() * kPanelRows, kBlockBytes = kFormat.block_bytes() * kPanelRows;
  static constexpr unsigned kNumbersAt = kFormat.half_bytes() * kPanelRows, kWordsAt = kNumbersAt + kFormat.scale_bytes() * kPanelRows;

  static constexpr YAMATA_DEVICE unsigned words_at(unsigned block) {
    return block / kBlocks * kGroupBytes + kWordsAt + block % kBlocks * kBlockBytes;
  }
};

/// Where the scales of a row of a block are, in bytes from the start of its panel.
template <class Block>
struct ScalesAt {
  using Layout = BlockLayout<Block>;
  static constexpr cpu::PanelFormat kFormat = Layout::kFormat;
  unsigned d, m, low = 0, high = 0;

  YAMATA_DEVICE ScalesAt(unsigned block, unsigned row) {
    constexpr unsigned kBytes = kFormat.scales == cpu::Scales::kExponent ? 1 : kFormat.scales == cpu::Scales::kFloatSubSix ? 4 : 2;
    const unsigned group = block / Layout::kBlocks * Layout::kGroupBytes, numbers = group + Layout::kNumbersAt;
    const unsigned at = block % Layout::kBlocks * kPanelRows + row;
    d = group + kBytes * row, m = group + 2 * (kPanelRows + row);
    if constexpr (kFormat.scales == cpu::Scales::kBlockSixMin)  // of a scale and a min: the same bytes
      low = numbers + at, high = numbers + 8 * kPanelRows + at % (4 * kPanelRows);
    else if constexpr (kFormat.scales == cpu::Scales::kBlockSix)
      low = numbers + at % (4 * kPanelRows), high = numbers + 4 * kPanelRows + at % (2 * kPanelRows);
    else if constexpr (kFormat.has_six())
      low = numbers + 2 * (at % (4 * kPanelRows)), high = numbers + 8 * kPanelRows + 2 * (at % (2 * kPanelRows));
    else if constexpr (kFormat.has_sub_blocks())
      low = numbers + 2 * at;
  }

  /// Reads them; place(at): a pointer to that byte.
  template <class Place>
  YAMATA_DEVICE RawScales read(const Place& place) const {
    const auto half = [&](unsigned at) -> std::uint32_t { return *reinterpret_cast<const std::uint16_t*>(place(at)); };
    RawScales raw{0, 0, 0, 0};
    if constexpr (kFormat.scales == cpu::Scales::kExponent)
      raw.d = *place(d);
    else if constexpr (kFormat.scales == cpu::Scales::kFloatSubSix)
      raw.d = *reinterpret_cast<const std::uint32_t*>(place(d));
    else
      raw.d = half(d);
    if constexpr (kFormat.has_min()) raw.m = half(m);
    if constexpr (kFormat.has_sub_blocks()) {
      raw.low = half(low);
      if constexpr (kFormat.has_six()) raw.high = half(high);
    } else if constexpr (kFormat.scales == cpu::Scales::kBlockSixMin || kFormat.scales == cpu::Scales::kBlockSix) {
      raw.low = *place(low), raw.high = *place(high);
    }
    return raw;
  }
};

/// 2 to the power e - 128.
YAMATA_DEVICE float power_of(std::uint32_t e) { return simt::float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23); }

/// A number of six bits: four from `low`, and two from `high`.
YAMATA_DEVICE int six(std::uint32_t low, std::uint32_t high) { return static_cast<int>((low & 15) | (high & 3) << 4); }

/// Decodes the scales of a row of a block.
template <class Block>
YAMATA_DEVICE RowScales decode_scales(const RawScales& raw, unsigned block, unsigned row) {
  constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Block>;
  // Which half of the numbers, or quarter: their place in the bytes of low and high bits.
  [[maybe_unused]] const unsigned at = block % kFormat.blocks() * kPanelRows + row, half = at / (4 * kPanelRows) * 4;
  RowScales out{0, 0, {}, {}};
  if constexpr (kFormat.scales == cpu::Scales::kExponent)
    out.d = power_of(raw.d);
  else if constexpr (kFormat.scales == cpu::Scales::kFloatSubSix)
    out.d = simt::float_of_bits(raw.d);
  else
    out.d = simt::half_to_float(static_cast<std::uint16_t>(raw.d));
  if constexpr (kFormat.has_min()) out.m = simt::half_to_float(static_cast<std::uint16_t>(raw.m));
  if constexpr (kFormat.scales == cpu::Scales::kBlockSixMin) {
    const unsigned quarter = at / (4 * kPanelRows) * 2;
    out.d *= static_cast<float>(six(raw.low, raw.high >> quarter));
    out.m *= -static_cast<float>(six(raw.low >> 4, raw.high >> (quarter + 4)));
  } else if constexpr (kFormat.scales == cpu::Scales::kBlockSix) {
    out.d *= static_cast<float>(six(raw.low >> half, raw.high >> (at / (2 * kPanelRows) * 2)) - 32);
  } else if constexpr (kFormat.has_sub_blocks()) {
    out.m = -out.m;
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t low = raw.low >> 8 * i, high = raw.high >> 8 * i;
      if constexpr (kFormat.has_six())
        out.sub[i] = six(low >> half, high >> (at / (2 * kPanelRows) * 2)) - 32;
      else if constexpr (kFormat.scales == cpu::Scales::kSubByte)
        out.sub[i] = static_cast<std::int8_t>(low);
      else
        out.sub[i] = static_cast<int>(low & 15), out.sub_min[i] = static_cast<int>(low >> 4 & 15);
    }
  }
  return out;
}

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

/// Steps per word of the low and of the high plane. Step j is weights 4j to 4j + 3.
template <class Block>
constexpr unsigned kLowSteps = 8 / cpu::kPanelFormat<Block>.low_bits;
template <class Block>
constexpr unsigned kHighSteps = cpu::kPanelFormat<Block>.high_bits > 0 ? 8 / cpu::kPanelFormat<Block>.high_bits : 8;

/// The weights of a step as signed bytes, with the zero point subtracted, from its words of the low and the high plane.
template <class Block>
YAMATA_DEVICE std::uint32_t unpack_step(std::uint32_t low, std::uint32_t high, unsigned step) {
  constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Block>;
  if constexpr (kFormat.low_bits == 8) {
    return low;
  } else {
    std::uint32_t numbers = low >> step % kLowSteps<Block> * kFormat.low_bits & four_times((1 << kFormat.low_bits) - 1);
    if constexpr (kFormat.high_bits > 0) {
      const std::uint32_t bits = high >> step % kHighSteps<Block> * kFormat.high_bits;
      numbers |= (bits & four_times((1 << kFormat.high_bits) - 1)) << kFormat.low_bits;
    }
    if constexpr (kFormat.lookup()) return look_up<kFormat.values>(numbers);
    // A subtraction in each byte: the highest bit is set meanwhile, so there is no borrow from the next byte.
    if constexpr (kFormat.zero_point > 0) return ((numbers | four_times(128)) - four_times(kFormat.zero_point)) ^ four_times(128);
    return numbers;
  }
}

/// The quantized values of one row of a block, in their bit planes.
template <class Block>
struct BlockWords {
  static constexpr int kLow = cpu::kPanelFormat<Block>.low_bits, kHigh = cpu::kPanelFormat<Block>.high_bits;
  std::uint32_t low[kLow], high[kHigh > 0 ? kHigh : 1];

  /// `planes`: the word of the row in the first plane.
  YAMATA_DEVICE void read(const std::uint32_t* planes) {
    for (int i = 0; i < kLow; ++i) low[i] = planes[i * static_cast<int>(kPanelRows)];
    for (int i = 0; i < kHigh; ++i) high[i] = planes[(kLow + i) * static_cast<int>(kPanelRows)];
  }
};

/// Weights 4 step to 4 step + 3 as signed bytes, with the zero point subtracted.
template <class Block>
YAMATA_DEVICE std::uint32_t step_word(const BlockWords<Block>& words, unsigned step) {
  const std::uint32_t high = BlockWords<Block>::kHigh > 0 ? words.high[step / kHighSteps<Block>] : 0;
  return unpack_step<Block>(words.low[step / kLowSteps<Block>], high, step);
}

}  // namespace
}  // namespace yamata::cuda
