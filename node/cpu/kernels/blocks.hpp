#pragma once
// The blocks of GGUF's quantized formats, byte for byte. `d` and `dmin` are IEEE half floats. Data only:
// this header is read by code compiled for particular processors, which must not share functions.
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

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ2K) == 84);
static_assert(sizeof(BlockQ3K) == 110 && sizeof(BlockQ4K) == 144 && sizeof(BlockQ5K) == 176);
static_assert(sizeof(BlockQ6K) == 210 && sizeof(BlockIQ4NL) == 18 && sizeof(BlockIQ4XS) == 136);

/// The sixteen values of the IQ4 formats.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace yamata::cpu
