#pragma once
// How each quantized format yields 64 weights at a time, in terms of the vector layer included before this.
//
// A group is what is decoded between two looks at scales: 64 weights of the formats with blocks of 32, 256 of the
// others. `open` reads the group's scales (a block's scale times a sub-scale is exact in a float), `step<kStep>`
// gives 64 weights, the lanes' scales and, of formats with a minimum, what is added per unit of x.
#include <cstddef>
#include <cstdint>

#include "node/cpu/blocks.hpp"

namespace yamata::cpu {
namespace {

/// Scales of a group; those of one step lie together.
struct Scales { alignas(64) float scale[16], min[16]; };

template <class BlockType, class OperandType, bool kMinimum>
struct SmallFormat {
  using Block = BlockType;
  using Operand = OperandType;
  static constexpr int kBlockElements = 32, kSteps = 1;
  static constexpr bool kHasMin = kMinimum;
  static void open(const Block* b, Scales& s) {
    s.scale[0] = widen_half(b[0].d), s.scale[1] = widen_half(b[1].d);
    if constexpr (kMinimum) s.min[0] = widen_half(b[0].m), s.min[1] = widen_half(b[1].m);
  }
  template <int kStep>
  static F32x16 scale(const Scales& s) { return spread2(s.scale); }
  template <int kStep>
  static F32x16 min(const Scales& s) { return spread2(s.min); }
};

struct FormatQ4_0 : SmallFormat<BlockQ4_0, SignedOperand, false> {
  template <int kStep>
  static I8x64 weights(const Block* b) { return combine(minus(nibbles(b[0].qs), 8), minus(nibbles(b[1].qs), 8)); }
};

struct FormatQ4_1 : SmallFormat<BlockQ4_1, UnsignedOperand, true> {
  template <int kStep>
  static I8x64 weights(const Block* b) { return combine(nibbles(b[0].qs), nibbles(b[1].qs)); }
};

template <class Block>
inline I8x32 five_bits(const Block& b) { return join(nibbles(b.qs), bits32(b.qh, 16)); }

struct FormatQ5_0 : SmallFormat<BlockQ5_0, SignedOperand, false> {
  template <int kStep>
  static I8x64 weights(const Block* b) { return combine(minus(five_bits(b[0]), 16), minus(five_bits(b[1]), 16)); }
};

struct FormatQ5_1 : SmallFormat<BlockQ5_1, UnsignedOperand, true> {
  template <int kStep>
  static I8x64 weights(const Block* b) { return combine(five_bits(b[0]), five_bits(b[1])); }
};

struct FormatQ8_0 : SmallFormat<BlockQ8_0, SignedOperand, false> {
  template <int kStep>
  static I8x64 weights(const Block* b) { return combine(load32(b[0].qs), load32(b[1].qs)); }
};

struct FormatIQ4NL : SmallFormat<BlockIQ4NL, SignedOperand, false> {
  template <int kStep>
  static I8x64 weights(const Block* b) {
    return combine(lookup(nibbles(b[0].qs), kIq4Values), lookup(nibbles(b[1].qs), kIq4Values));
  }
};

/// kRuns scales to each step: 2 for runs of 32 weights, 4 for runs of 16.
template <class BlockType, class OperandType, bool kMinimum, int kRuns>
struct SuperFormat {
  using Block = BlockType;
  using Operand = OperandType;
  static constexpr int kBlockElements = 256, kSteps = 4;
  static constexpr bool kHasMin = kMinimum;
  template <int kStep>
  static F32x16 scale(const Scales& s) { return kRuns == 2 ? spread2(s.scale + 2 * kStep) : spread4(s.scale + 4 * kStep); }
  template <int kStep>
  static F32x16 min(const Scales& s) { return kRuns == 2 ? spread2(s.min + 2 * kStep) : spread4(s.min + 4 * kStep); }
};

inline void scale_bytes(const std::int8_t* bytes, float factor, float* out) {
  store(out, mul(load_i8(bytes), set1(factor)));
}

struct FormatQ2K : SuperFormat<BlockQ2K, UnsignedOperand, true, 4> {
  static void open(const Block* b, Scales& s) {
    std::int8_t low[16], high[16];
    for (int i = 0; i < 16; ++i) {
      low[i] = static_cast<std::int8_t>(b->scales[i] & 15);
      high[i] = static_cast<std::int8_t>(b->scales[i] >> 4);
    }
    scale_bytes(low, widen_half(b->d), s.scale);
    scale_bytes(high, -widen_half(b->dmin), s.min);
  }
  template <int kStep>
  static I8x64 weights(const Block* b) {
    const I8x32 q = load32(b->qs + kStep / 2 * 32);
    return combine(mask(shr<kStep % 2 * 4>(q), 3), mask(shr<kStep % 2 * 4 + 2>(q), 3));
  }
};

struct FormatQ3K : SuperFormat<BlockQ3K, SignedOperand, false, 4> {
  static void open(const Block* b, Scales& s) {
    std::int8_t scales[16];
    for (int i = 0; i < 16; ++i) {
      const int low = b->scales[i % 8] >> (i / 8 * 4) & 15, high = b->scales[8 + i % 4] >> (i / 4 * 2) & 3;
      scales[i] = static_cast<std::int8_t>((low | high << 4) - 32);
    }
    scale_bytes(scales, widen_half(b->d), s.scale);
  }
  template <int kShift, int kHigh>
  static I8x32 run(I8x32 q, I8x32 h) {
    return minus(join(mask(shr<kShift>(q), 3), shl<2>(mask(shr<kHigh>(h), 1))), 4);
  }
  template <int kStep>
  static I8x64 weights(const Block* b) {
    const I8x32 q = load32(b->qs + kStep / 2 * 32), h = load32(b->hmask);
    return combine(run<kStep % 2 * 4, 2 * kStep>(q, h), run<kStep % 2 * 4 + 2, 2 * kStep + 1>(q, h));
  }
};

/// The twelve bytes of six-bit scales and minima of Q4_K and Q5_K.
template <class Block>
inline void open_k(const Block* b, Scales& s) {
  const std::uint32_t low_bits = 0x3f3f3f3f, nibble_bits = 0x0f0f0f0f, pair_bits = 0x03030303;
  std::uint32_t raw[3];
  __builtin_memcpy(raw, b->scales, sizeof raw);
  const std::uint32_t sorted[4] = {
      raw[0] & low_bits, (raw[2] & nibble_bits) | (raw[0] >> 6 & pair_bits) << 4,
      raw[1] & low_bits, (raw[2] >> 4 & nibble_bits) | (raw[1] >> 6 & pair_bits) << 4};
  std::int8_t bytes[16];
  __builtin_memcpy(bytes, sorted, sizeof bytes);
  float factors[2] = {widen_half(b->d), -widen_half(b->dmin)};
  alignas(64) float both[16];
  store(both, mul(load_i8(bytes), spread2(factors)));
  __builtin_memcpy(s.scale, both, 8 * sizeof(float));
  __builtin_memcpy(s.min, both + 8, 8 * sizeof(float));
}

struct FormatQ4K : SuperFormat<BlockQ4K, UnsignedOperand, true, 2> {
  static void open(const Block* b, Scales& s) { open_k(b, s); }
  template <int kStep>
  static I8x64 weights(const Block* b) {
    const I8x32 q = load32(b->qs + 32 * kStep);
    return combine(mask(q, 15), shr<4>(q));
  }
};

struct FormatQ5K : SuperFormat<BlockQ5K, UnsignedOperand, true, 2> {
  static void open(const Block* b, Scales& s) { open_k(b, s); }
  template <int kStep>
  static I8x64 weights(const Block* b) {
    const I8x32 q = load32(b->qs + 32 * kStep), h = load32(b->qh);
    return combine(join(mask(q, 15), shl<4>(mask(shr<2 * kStep>(h), 1))),
                   join(shr<4>(q), shl<4>(mask(shr<2 * kStep + 1>(h), 1))));
  }
};

struct FormatQ6K : SuperFormat<BlockQ6K, SignedOperand, false, 4> {
  static void open(const Block* b, Scales& s) { scale_bytes(b->scales, widen_half(b->d), s.scale); }
  template <int kStep, int kHigh>
  static I8x32 run(const std::uint8_t* ql, I8x32 h) {
    const I8x32 q = load32(ql);
    const I8x32 low = kStep % 2 == 0 ? mask(q, 15) : shr<4>(q);
    return minus(join(low, shl<4>(mask(shr<kHigh>(h), 3))), 32);
  }
  template <int kStep>
  static I8x64 weights(const Block* b) {
    const std::uint8_t* ql = b->ql + kStep / 2 * 64;
    const I8x32 h = load32(b->qh + kStep / 2 * 32);
    return combine(run<kStep, kStep % 2 * 4>(ql, h), run<kStep, kStep % 2 * 4 + 2>(ql + 32, h));
  }
};

struct FormatIQ4XS : SuperFormat<BlockIQ4XS, SignedOperand, false, 2> {
  static void open(const Block* b, Scales& s) {
    std::int8_t scales[16] = {};
    for (int i = 0; i < 8; ++i) {
      const int low = b->scales_l[i / 2] >> (i % 2 * 4) & 15, high = b->scales_h >> (2 * i) & 3;
      scales[i] = static_cast<std::int8_t>((low | high << 4) - 32);
    }
    scale_bytes(scales, widen_half(b->d), s.scale);
  }
  template <int kStep>
  static I8x64 weights(const Block* b) {
    const std::uint8_t* q = b->qs + 32 * kStep;
    return combine(lookup(nibbles(q), kIq4Values), lookup(nibbles(q + 16), kIq4Values));
  }
};

}  // namespace
}  // namespace yamata::cpu
