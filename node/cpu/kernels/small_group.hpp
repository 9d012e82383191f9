#pragma once
// Unpacks one group of one row of the small formats: groups of weights are looked up, and their values renumbered for PanelBlockOf. The
// functions are local to each file that includes this.
#include <cstdint>

#include "node/cpu/kernels/grids.hpp"
#include "node/cpu/kernels/row_group.hpp"

// Only on the device, because the tables are.
#ifdef __CUDACC__
#define YAMATA_SMALL_GROUP __device__
#else
#define YAMATA_SMALL_GROUP
#endif

namespace yamata::cpu {
namespace {

/// Sets weight `at` of 256 to number `number`.
YAMATA_SMALL_GROUP inline void put_number(RowGroup& g, int at, std::uint32_t number) {
  g.steps[at / 32][at % 32 / 4] |= number << at % 4 * 8;
}

/// Sets the weights from `at` on: a group's magnitudes, kBits each, and a sign each.
template <int kBits, int kCount>
YAMATA_SMALL_GROUP inline void put_group(RowGroup& g, int at, std::uint32_t group, std::uint32_t signs) {
  for (int j = 0; j < kCount; ++j) put_number(g, at + j, (group >> kBits * j & ((1u << kBits) - 1)) | (signs >> j & 1) << 3);
}

/// The eighth sign is chosen so that the number of negative signs is even.
YAMATA_SMALL_GROUP inline std::uint32_t eight_signs(std::uint32_t seven) {
  return seven | (0x6996u >> ((seven ^ seven >> 4) & 15) & 1) << 7;
}

/// The scale of sub-block `sub` of 16 is the odd number 2 s + 1; panels store scales with zero point 32.
YAMATA_SMALL_GROUP inline void put_scale(RowGroup& g, int sub, int s) { g.scales[sub] = static_cast<std::uint8_t>(2 * s + 1 + 32); }

YAMATA_SMALL_GROUP inline std::uint32_t two_bytes(const std::uint8_t* bytes, int i) {
  return bytes[2 * i] | static_cast<std::uint32_t>(bytes[2 * i + 1]) << 8;
}

YAMATA_SMALL_GROUP inline void unpack(const BlockIQ2XXS& b, RowGroup& g) {
  g.d = b.d, g.scale = 0.125f;
  for (int k = 0; k < 8; ++k) {
    const std::uint32_t signs = word(b.qs + 8 * k, 1);
    for (int l = 0; l < 4; ++l) put_group<2, 8>(g, 32 * k + 8 * l, kIq2XxsGrid[b.qs[8 * k + l]], eight_signs(signs >> 7 * l & 127));
    for (int sub = 0; sub < 2; ++sub) put_scale(g, 2 * k + sub, static_cast<int>(signs >> 28));
  }
}

YAMATA_SMALL_GROUP inline void unpack(const BlockIQ2XS& b, RowGroup& g) {
  g.d = b.d, g.scale = 0.125f;
  for (int i = 0; i < 32; ++i) {
    const std::uint32_t q = two_bytes(b.qs, i);
    put_group<2, 8>(g, 8 * i, kIq2XsGrid[q & 511], eight_signs(q >> 9));
  }
  for (int sub = 0; sub < 16; ++sub) put_scale(g, sub, b.scales[sub / 2] >> sub % 2 * 4 & 15);
}

YAMATA_SMALL_GROUP inline void unpack(const BlockIQ2S& b, RowGroup& g) {
  g.d = b.d, g.scale = 0.125f;
  for (int i = 0; i < 32; ++i) put_group<2, 8>(g, 8 * i, kIq2SGrid[b.qs[i] | (b.qh[i / 4] >> i % 4 * 2 & 3) << 8], b.signs[i]);
  for (int sub = 0; sub < 16; ++sub) put_scale(g, sub, b.scales[sub / 2] >> sub % 2 * 4 & 15);
}

YAMATA_SMALL_GROUP inline void unpack(const BlockIQ3XXS& b, RowGroup& g) {
  g.d = b.d, g.scale = 0.25f;
  for (int k = 0; k < 8; ++k) {
    const std::uint32_t signs = word(b.signs, k);
    for (int l = 0; l < 8; ++l) {
      const std::uint32_t eight = eight_signs(signs >> l / 2 * 7 & 127);
      put_group<3, 4>(g, 32 * k + 4 * l, kIq3XxsGrid[b.qs[8 * k + l]], eight >> l % 2 * 4);
    }
    for (int sub = 0; sub < 2; ++sub) put_scale(g, 2 * k + sub, static_cast<int>(signs >> 28));
  }
}

YAMATA_SMALL_GROUP inline void unpack(const BlockIQ3S& b, RowGroup& g) {
  g.d = b.d, g.scale = 1;
  for (int i = 0; i < 64; ++i) put_group<3, 4>(g, 4 * i, kIq3SGrid[b.qs[i] | (b.qh[i / 8] >> i % 8 & 1) << 8], b.signs[i / 2] >> i % 2 * 4);
  for (int sub = 0; sub < 16; ++sub) put_scale(g, sub, b.scales[sub / 4] >> sub / 2 % 2 * 4 & 15);
}

/// Sets a group of weights from `at` on, in units of 1/8: an integer plus or minus 1/8.
YAMATA_SMALL_GROUP inline void put_eighths(RowGroup& g, int at, std::uint32_t group, bool less) {
  for (int j = 0; j < 8; ++j) {
    const int weight = 8 * (static_cast<int>(group >> 2 * j & 3) - 1) + (less ? -1 : 1);
    put_number(g, at + j, static_cast<std::uint32_t>(weight < 0 ? 8 + (-weight - 1) / 2 : (weight - 1) / 2));
  }
}

YAMATA_SMALL_GROUP inline void unpack(const BlockIQ1S& b, RowGroup& g) {
  g.d = b.d, g.scale = 0.125f;
  for (int k = 0; k < 8; ++k) {
    const std::uint32_t qh = two_bytes(b.qh, k);
    for (int l = 0; l < 4; ++l) put_eighths(g, 32 * k + 8 * l, kIq1Grid[b.qs[4 * k + l] | (qh >> 3 * l & 7) << 8], qh >> 15 != 0);
    for (int sub = 0; sub < 2; ++sub) put_scale(g, 2 * k + sub, static_cast<int>(qh >> 12 & 7));
  }
}

/// The four highest bits of each 16-bit word of the scales form the half float d; the others are a three-bit scale for each sub-block.
YAMATA_SMALL_GROUP inline void unpack(const BlockIQ1M& b, RowGroup& g) {
  std::uint32_t d = 0;
  for (int i = 0; i < 4; ++i) d |= two_bytes(b.scales, i) >> 12 << 4 * i;
  g.d = static_cast<std::uint16_t>(d), g.scale = 0.125f;
  for (int i = 0; i < 32; ++i) {
    const std::uint32_t qh = b.qh[i / 2] >> i % 2 * 4;
    put_eighths(g, 8 * i, kIq1Grid[b.qs[i] | (qh & 7) << 8], (qh & 8) != 0);
  }
  for (int sub = 0; sub < 16; ++sub) put_scale(g, sub, static_cast<int>(two_bytes(b.scales, sub / 4) >> sub % 4 * 3 & 7));
}

/// Begins a group with weights -1, 0 and 1 in the form of Q2_K: numbers 0, 1 and 2, all scales 1, min d.
YAMATA_SMALL_GROUP inline void begin_ternary(std::uint16_t d, RowGroup& g) {
  g.d = g.m = d;
  for (int sub = 0; sub < 16; ++sub) g.scales[sub] = g.mins[sub] = 1;
}

/// A byte is a fraction of 256, rounded up; its digits in base 3 are the numbers.
YAMATA_SMALL_GROUP inline std::uint32_t ternary_digit(std::uint8_t byte, int digit) {
  constexpr std::uint8_t kPowers[] = {1, 3, 9, 27, 81};
  return static_cast<std::uint8_t>(byte * kPowers[digit]) * 3u >> 8;
}

YAMATA_SMALL_GROUP inline void unpack(const BlockTQ1_0& b, RowGroup& g) {
  begin_ternary(b.d, g);
  for (int i = 0; i < 160; ++i) put_number(g, i, ternary_digit(b.qs[i % 32], i / 32));
  for (int i = 0; i < 80; ++i) put_number(g, 160 + i, ternary_digit(b.qs[32 + i % 16], i / 16));
  for (int i = 0; i < 16; ++i) put_number(g, 240 + i, ternary_digit(b.qh[i % 4], i / 4));
}

YAMATA_SMALL_GROUP inline void unpack(const BlockTQ2_0& b, RowGroup& g) {
  begin_ternary(b.d, g);
  for (int i = 0; i < 256; ++i) put_number(g, i, b.qs[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3u);
}

}  // namespace
}  // namespace yamata::cpu
