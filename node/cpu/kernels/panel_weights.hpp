#pragma once
// Unpacks a panel's scales and numbers for the product. Uses the lanes that were included before this.
#include <cstdint>

#include "node/cpu/kernels/lanes_contract.hpp"
#include "node/cpu/kernels/panel.hpp"

#define YAMATA_INLINE inline __attribute__((always_inline))

namespace yamata::cpu {
namespace {

/// The unpacked scales and mins of a group: [block][row], or [block][row][sub].
struct GroupScales {
  alignas(64) std::int8_t scales[16 * kRows], mins[16 * kRows];
};

/// Unpacks six-bit numbers: the first half to `first`, the others to `second`. Two bytes at a time, because compilers vectorize such
/// shifts.
template <int kNumbers, int kZeroPoint>
YAMATA_INLINE void unpack_six(const std::uint8_t* planes, std::int8_t* first, std::int8_t* second) {
  constexpr int kQuarter = kNumbers / 4;
  const auto two = [&](int at) {
    std::uint16_t bytes;
    __builtin_memcpy(&bytes, planes + at, 2);
    return bytes;
  };
  const auto put = [](std::int8_t* to, int low, int high) {
    const auto bytes = static_cast<std::uint16_t>((low & 0x0f0f) | (high & 0x0303) << 4);
    __builtin_memcpy(to, &bytes, 2);
  };
  for (int i = 0; i < kQuarter; i += 2) {
    const int low = two(i), more = two(kQuarter + i), high = two(kNumbers / 2 + i);
    put(first + i, low, high);
    put(first + kQuarter + i, more, high >> 2);
    put(second + i, low >> 4, high >> 4);
    put(second + kQuarter + i, more >> 4, high >> 6);
  }
  for (int i = 0; kZeroPoint != 0 && i < kNumbers / 2; ++i) {
    first[i] = static_cast<std::int8_t>(first[i] - kZeroPoint);
    second[i] = static_cast<std::int8_t>(second[i] - kZeroPoint);
  }
}

template <Scales kScales>
YAMATA_INLINE void unpack_scales(const std::uint8_t* p, GroupScales& s) {
  if constexpr (kScales == Scales::kBlockSixMin) unpack_six<16 * kRows, 0>(p, s.scales, s.mins);
  if constexpr (kScales == Scales::kBlockSix) unpack_six<8 * kRows, 32>(p, s.scales, s.scales + 4 * kRows);
  if constexpr (kScales == Scales::kSubSix || kScales == Scales::kFloatSubSix)
    unpack_six<16 * kRows, 32>(p, s.scales, s.scales + 8 * kRows);
  if constexpr (kScales == Scales::kSubByte) __builtin_memcpy(s.scales, p, 16 * kRows);
  if constexpr (kScales == Scales::kSubFourMin) {
    for (int i = 0; i < 16 * kRows; ++i) {
      s.scales[i] = static_cast<std::int8_t>(p[i] & 15);
      s.mins[i] = static_cast<std::int8_t>(p[i] >> 4);
    }
  }
}

/// The scales d of a group's rows, as floats.
template <Scales kScales>
YAMATA_INLINE RowFloats unpack_d(const std::uint8_t* group) {
  if constexpr (kScales == Scales::kExponent) {
    alignas(64) float powers[kRows];
    for (int row = 0; row < kRows; ++row) {
      const std::uint32_t e = group[row], bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
      __builtin_memcpy(powers + row, &bits, sizeof bits);
    }
    return load_rows(powers);
  } else if constexpr (kScales == Scales::kFloatSubSix) {
    return load_rows(reinterpret_cast<const float*>(group));
  } else {
    return from_halves(reinterpret_cast<const std::uint16_t*>(group));
  }
}

/// Position of step kStep in a plane of kBits: the index of its vector, and its first bit.
template <int kBits, int kStep>
constexpr int kVectorOf = kStep / (8 / kBits);
template <int kBits, int kStep>
constexpr int kBitOf = kStep % (8 / kBits) * kBits;

/// The numbers of step kStep in a plane of kBits.
template <int kBits, int kStep>
YAMATA_INLINE RowBytes plane(const std::uint8_t* p) {
  const RowBytes vector = load_row_bytes(p + kVectorOf<kBits, kStep> * 4 * kRows);
  if constexpr (kBits == 8)
    return vector;
  else
    return field<kBitOf<kBits, kStep>, kBits>(vector);
}

template <class Block, int kStep>
YAMATA_INLINE auto weights(const std::uint8_t* block) {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  RowBytes numbers = plane<kFormat.low_bits, kStep>(block);
  if constexpr (kFormat.high_bits != 0) {
    constexpr int kVector = kFormat.low_bits + kVectorOf<kFormat.high_bits, kStep>, kBit = kBitOf<kFormat.high_bits, kStep>;
    numbers = join_high<kBit, kFormat.high_bits, kFormat.low_bits>(numbers, load_row_bytes(block + 4 * kRows * kVector));
  }
  if constexpr (kFormat.lookup()) {
    constexpr const std::int8_t* kTable = table_of(kFormat.values);
    numbers = look_up(numbers, kTable);
  }
  if constexpr (kFormat.is_signed())
    return signed_bytes(numbers);
  else
    return numbers;
}

}  // namespace
}  // namespace yamata::cpu
