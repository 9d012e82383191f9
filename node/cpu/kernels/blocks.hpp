#pragma once
// The blocks of GGUF's quantized formats, byte for byte. `d` and `dmin` are IEEE half floats. Data only: this header is included by code
// that is compiled for particular processors and must not share functions.
#include <cstdint>

namespace yamata::cpu {

struct BlockQ4_0 {
  std::uint16_t d;
  std::uint8_t qs[16];
};
struct BlockQ4_1 {
  std::uint16_t d, m;
  std::uint8_t qs[16];
};
struct BlockQ5_0 {
  std::uint16_t d;
  std::uint8_t qh[4], qs[16];
};
struct BlockQ5_1 {
  std::uint16_t d, m;
  std::uint8_t qh[4], qs[16];
};
struct BlockQ8_0 {
  std::uint16_t d;
  std::int8_t qs[32];
};
struct BlockQ2K {
  std::uint8_t scales[16], qs[64];
  std::uint16_t d, dmin;
};
struct BlockQ3K {
  std::uint8_t hmask[32], qs[64], scales[12];
  std::uint16_t d;
};
struct BlockQ4K {
  std::uint16_t d, dmin;
  std::uint8_t scales[12], qs[128];
};
struct BlockQ5K {
  std::uint16_t d, dmin;
  std::uint8_t scales[12], qh[32], qs[128];
};
struct BlockQ6K {
  std::uint8_t ql[128], qh[64];
  std::int8_t scales[16];
  std::uint16_t d;
};
struct BlockIQ4NL {
  std::uint16_t d;
  std::uint8_t qs[16];
};
struct BlockIQ4XS {
  std::uint16_t d, scales_h;
  std::uint8_t scales_l[4], qs[128];
};

/// Four bits that index kMxfp4Values, times 2 to the power `exponent` - 128. This is MXFP4 of the OCP Microscaling formats; the values in
/// the table are twice as large, and the exponent is one lower.
struct BlockMXFP4 {
  std::uint8_t exponent, qs[16];
};
// The small IQ formats: an index selects a group of 8 or 4 magnitudes from a table (grids.hpp); signs are stored separately.
struct BlockIQ2XXS {
  std::uint16_t d;
  std::uint8_t qs[64];
};
struct BlockIQ2XS {
  std::uint16_t d;
  std::uint8_t qs[64], scales[8];
};
struct BlockIQ2S {
  std::uint16_t d;
  std::uint8_t qs[32], signs[32], qh[8], scales[8];
};
struct BlockIQ3XXS {
  std::uint16_t d;
  std::uint8_t qs[64], signs[32];
};
struct BlockIQ3S {
  std::uint16_t d;
  std::uint8_t qs[64], qh[8], signs[32], scales[4];
};
struct BlockIQ1S {
  std::uint16_t d;
  std::uint8_t qs[32], qh[16];
};
struct BlockIQ1M {
  std::uint8_t qs[32], qh[16], scales[8];
};
/// Weights -1, 0 and 1 times d: five per byte in base 3 (TQ1_0), or four (TQ2_0).
struct BlockTQ1_0 {
  std::uint8_t qs[48], qh[4];
  std::uint16_t d;
};
struct BlockTQ2_0 {
  std::uint8_t qs[64];
  std::uint16_t d;
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ2K) == 84);
static_assert(sizeof(BlockQ3K) == 110 && sizeof(BlockQ4K) == 144 && sizeof(BlockQ5K) == 176);
static_assert(sizeof(BlockQ6K) == 210 && sizeof(BlockIQ4NL) == 18 && sizeof(BlockIQ4XS) == 136);
static_assert(sizeof(BlockMXFP4) == 17 && sizeof(BlockIQ2XXS) == 66 && sizeof(BlockIQ2XS) == 74 && sizeof(BlockIQ2S) == 82);
static_assert(sizeof(BlockIQ3XXS) == 98 && sizeof(BlockIQ3S) == 110 && sizeof(BlockIQ1S) == 50 && sizeof(BlockIQ1M) == 56);
static_assert(sizeof(BlockTQ1_0) == 54 && sizeof(BlockTQ2_0) == 66);

/// The sixteen values of the IQ4 formats.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// The values of MXFP4; the highest bit is the sign.
inline constexpr std::int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
// Magnitudes of the small IQ formats, and their negatives from index 8 on: of IQ2_*; of IQ3_XXS; odd numbers, of IQ3_S and IQ1_*.
inline constexpr std::int8_t kIq2Values[16] = {8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43, 0, 0, 0, 0, 0};
inline constexpr std::int8_t kIq3Values[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
inline constexpr std::int8_t kOddValues[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};

}  // namespace yamata::cpu
