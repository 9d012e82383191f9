#pragma once
// The layout of quantized weights and activations for the matrix product. Constants only: this header is included by code that is compiled
// for particular processors and must not share functions.
//
// A panel is some adjacent rows, one lane each. A block of it is 32 weights of every row. Step j of a block is weights 4j to 4j+3 of every
// row: a vector of [row][4] bytes. Weights of fewer than 8 bits are in planes of such vectors: a vector of a plane of b bits holds 8/b
// steps, the first in the lowest bits. Weights of 5 or 6 bits (of 3) are in a plane of four (two) bits and one of the high bits. A group
// has as many blocks as a block of the file: 1 or 8. A panel is a sequence of groups; each has
//   the scales d of each row, then the mins m of each row if the format has them (half floats),
//   the quantized scales if the format has them (see Scales),
//   the blocks, each its low plane and its high plane.
// A panel is as long as its rows in the file, except that a matrix's last panel is padded to full lanes. The small IQ formats and the
// ternary formats are different: they index tables of groups of weights, which would be too slow in the product, so their panels have
// another format that contains all their values.
#include <cstddef>
#include <cstdint>

#include "node/cpu/kernels/blocks.hpp"

namespace yamata::cpu {

/// The layout of a group's scales. Six-bit numbers are in two planes: number i of n has its low bits in byte i % (n/2) of the first plane
/// (the second half of the numbers in the high bits), and its high bits in byte i % (n/4) of the second plane.
enum class Scales {
  kExponent,     ///< only d, a power of two: the byte e means 2^(e - 128)
  kHalf,         ///< only d
  kHalfMin,      ///< only d and m
  kBlockSixMin,  ///< six bits: [scale, min][block][row]
  kBlockSix,     ///< six bits, zero point 32: [block][row]
  kSubByte,      ///< a sub-block is 16 weights: signed bytes [block][row][sub]
  kSubSix,       ///< six bits, zero point 32: [block][row][sub]
  kSubFourMin,   ///< bytes [block][row][sub]: the scale in the low bits, the min in the high bits
  kFloatSubSix,  ///< d is a float; as kSubSix
};

/// What a format's numbers represent: themselves, or values of one of these tables.
enum class Values { kNumbers, kIq4, kMxfp4, kIq2, kIq3, kOdd };

constexpr const std::int8_t* table_of(Values values) {
  return values == Values::kMxfp4 ? kMxfp4Values
         : values == Values::kIq2 ? kIq2Values
         : values == Values::kIq3 ? kIq3Values
         : values == Values::kOdd ? kOddValues
                                  : kIq4Values;
}

/// A quantized format: weight = scale * (number - zero point), or scale * the number's value; the min is added or subtracted.
struct PanelFormat {
  int low_bits, high_bits;  ///< of a number, and thus of the planes
  int zero_point;
  Values values;
  Scales scales;

  constexpr bool lookup() const { return values != Values::kNumbers; }
  /// Bits of the multiplied values, or of their magnitudes.
  constexpr int bits() const { return values == Values::kMxfp4 || values == Values::kOdd ? 4 : lookup() ? 8 : low_bits + high_bits; }
  constexpr bool grouped() const { return scales != Scales::kExponent && scales != Scales::kHalf && scales != Scales::kHalfMin; }
  constexpr bool has_six() const { return scales == Scales::kSubSix || scales == Scales::kFloatSubSix; }
  constexpr bool has_sub_blocks() const { return scales == Scales::kSubByte || scales == Scales::kSubFourMin || has_six(); }
  constexpr bool has_min() const { return scales == Scales::kHalfMin || scales == Scales::kBlockSixMin || scales == Scales::kSubFourMin; }
  constexpr bool is_signed() const { return low_bits == 8 || lookup(); }
  constexpr int blocks() const { return grouped() ? 8 : 1; }
  /// Quantized scales of a row in a group, including mins.
  constexpr int scale_numbers() const { return !grouped() ? 0 : scales == Scales::kBlockSix ? 8 : 16; }
  constexpr int scale_bits() const { return scales == Scales::kSubByte || scales == Scales::kSubFourMin ? 8 : 6; }
  // Bytes of a row in a group.
  constexpr int half_bytes() const {  // d and m
    return scales == Scales::kExponent ? 1 : has_min() || scales == Scales::kFloatSubSix ? 4 : 2;
  }
  constexpr int scale_bytes() const { return scale_numbers() * scale_bits() / 8; }
  constexpr int block_bytes() const { return 4 * (low_bits + high_bits); }
  constexpr int group_bytes() const { return half_bytes() + scale_bytes() + blocks() * block_bytes(); }
};

/// By the file's block.
template <class Block>
inline constexpr PanelFormat kPanelFormat{};
template <>
inline constexpr PanelFormat kPanelFormat<BlockQ4_0>{4, 0, 8, Values::kNumbers, Scales::kHalf};
template <>
inline constexpr PanelFormat kPanelFormat<BlockQ4_1>{4, 0, 0, Values::kNumbers, Scales::kHalfMin};
template <>
inline constexpr PanelFormat kPanelFormat<BlockQ5_0>{4, 1, 16, Values::kNumbers, Scales::kHalf};
template <>
inline constexpr PanelFormat kPanelFormat<BlockQ5_1>{4, 1, 0, Values::kNumbers, Scales::kHalfMin};
template <>
inline constexpr PanelFormat kPanelFormat<BlockQ8_0>{8, 0, 0, Values::kNumbers, Scales::kHalf};
template <>
inline constexpr PanelFormat kPanelFormat<BlockQ2K>{2, 0, 0, Values::kNumbers, Scales::kSubFourMin};
template <>
inline constexpr PanelFormat kPanelFormat<BlockQ3K>{2, 1, 4, Values::kNumbers, Scales::kSubSix};
template <>
inline constexpr PanelFormat kPanelFormat<BlockQ4K>{4, 0, 0, Values::kNumbers, Scales::kBlockSixMin};
template <>
inline constexpr PanelFormat kPanelFormat<BlockQ5K>{4, 1, 0, Values::kNumbers, Scales::kBlockSixMin};
template <>
inline constexpr PanelFormat kPanelFormat<BlockQ6K>{4, 2, 32, Values::kNumbers, Scales::kSubByte};
template <>
inline constexpr PanelFormat kPanelFormat<BlockIQ4NL>{4, 0, 0, Values::kIq4, Scales::kHalf};
template <>
inline constexpr PanelFormat kPanelFormat<BlockIQ4XS>{4, 0, 0, Values::kIq4, Scales::kBlockSix};
template <>
inline constexpr PanelFormat kPanelFormat<BlockMXFP4>{4, 0, 0, Values::kMxfp4, Scales::kExponent};

/// Panels of the small IQ formats, by their tables of values.
template <Values kValues>
struct SmallPanel {};
template <Values kValues>
inline constexpr PanelFormat kPanelFormat<SmallPanel<kValues>>{4, 0, 0, kValues, Scales::kFloatSubSix};

/// The panel format of a block of the file: its own, except for the small formats.
template <class Block>
struct PanelsOf {
  using Type = Block;
};
template <>
struct PanelsOf<BlockIQ2XXS> {
  using Type = SmallPanel<Values::kIq2>;
};
template <>
struct PanelsOf<BlockIQ2XS> {
  using Type = SmallPanel<Values::kIq2>;
};
template <>
struct PanelsOf<BlockIQ2S> {
  using Type = SmallPanel<Values::kIq2>;
};
template <>
struct PanelsOf<BlockIQ3XXS> {
  using Type = SmallPanel<Values::kIq3>;
};
template <>
struct PanelsOf<BlockIQ3S> {
  using Type = SmallPanel<Values::kOdd>;
};
template <>
struct PanelsOf<BlockIQ1S> {
  using Type = SmallPanel<Values::kOdd>;
};
template <>
struct PanelsOf<BlockIQ1M> {
  using Type = SmallPanel<Values::kOdd>;
};
template <>
struct PanelsOf<BlockTQ1_0> {
  using Type = BlockQ2K;
};
template <>
struct PanelsOf<BlockTQ2_0> {
  using Type = BlockQ2K;
};
template <class Block>
using PanelBlockOf = typename PanelsOf<Block>::Type;

// Activations: the tokens of a tile are stored together, by blocks of 32 elements. Each block has
//   int8 values [token][32], float scales [token], float sums [token]: scale * (sum of the values),
//   int16 sub-block sums [token][2]: of the values of each half,
//   int32 compensation [token]: -kCompensationUnit * (sum of the values): the initial value of a sum of products with numbers of that zero
//   point; int16 sub-block compensation [token][half][2]: -kSubCompensationUnit * (sum of that half's values 0, 1, 4, 5, 8 ... and of its
//   others), the initial value of 16-bit sums (Q6_K with AVX2).
inline constexpr std::int64_t kActivationBlockBytes = 32 + 4 + 4 + 4 + 4 + 8;  ///< of one token
inline constexpr int kCompensationUnit = 8, kSubCompensationUnit = 32;

/// This many bytes of panels stay in the L2 cache while all tokens are multiplied with them.
inline constexpr std::int64_t kPanelsBytes = 128 << 10;

}  // namespace yamata::cpu
