// The definition of each format, in plain code; the kernels are tested against it.
#include <cstring>

#include "node/cpu/kernels/blocks.hpp"
#include "node/cpu/kernels/half.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/kernels/panel.hpp"
#include "node/cpu/kernels/small_group.hpp"

namespace yamata::cpu {
namespace {

/// Low nibbles are the first 16 values, high nibbles the others.
int nibble(const std::uint8_t* qs, int i) { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; }
int bit(const std::uint8_t* bytes, int i) { return bytes[i / 8] >> (i % 8) & 1; }

void expand(const BlockQ4_0& b, float* y) {
  for (int i = 0; i < 32; ++i) y[i] = f16_to_f32(b.d) * static_cast<float>(nibble(b.qs, i) - 8);
}

void expand(const BlockQ4_1& b, float* y) {
  for (int i = 0; i < 32; ++i) y[i] = f16_to_f32(b.d) * static_cast<float>(nibble(b.qs, i)) + f16_to_f32(b.m);
}

void expand(const BlockQ5_0& b, float* y) {
  for (int i = 0; i < 32; ++i) {
    y[i] = f16_to_f32(b.d) * static_cast<float>((nibble(b.qs, i) | bit(b.qh, i) << 4) - 16);
  }
}

void expand(const BlockQ5_1& b, float* y) {
  for (int i = 0; i < 32; ++i) {
    y[i] = f16_to_f32(b.d) * static_cast<float>(nibble(b.qs, i) | bit(b.qh, i) << 4) + f16_to_f32(b.m);
  }
}

void expand(const BlockQ8_0& b, float* y) {
  for (int i = 0; i < 32; ++i) y[i] = f16_to_f32(b.d) * static_cast<float>(b.qs[i]);
}

void expand(const BlockIQ4NL& b, float* y) {
  for (int i = 0; i < 32; ++i) y[i] = f16_to_f32(b.d) * static_cast<float>(kIq4Values[nibble(b.qs, i)]);
}

/// Two bits of value i of 256: 128 consecutive values are in 32 bytes, and each pair of bits in these has 32 values.
int two_bits(const std::uint8_t* qs, int i) { return qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }
/// A nibble of value i of 256: 64 consecutive values are in 32 bytes.
int k_nibble(const std::uint8_t* qs, int i) { return qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15; }

void expand(const BlockQ2K& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const float scale = f16_to_f32(b.d) * static_cast<float>(b.scales[i / 16] & 15);
    const float min = f16_to_f32(b.dmin) * static_cast<float>(b.scales[i / 16] >> 4);
    y[i] = scale * static_cast<float>(two_bits(b.qs, i)) - min;
  }
}

void expand(const BlockQ3K& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int j = i / 16;
    const int low = b.scales[j % 8] >> (j / 8 * 4) & 15, high = b.scales[8 + j % 4] >> (j / 4 * 2) & 3;
    const int value = two_bits(b.qs, i) + (b.hmask[i % 32] >> (i / 32) & 1 ? 0 : -4);
    y[i] = f16_to_f32(b.d) * static_cast<float>((low | high << 4) - 32) * static_cast<float>(value);
  }
}

/// The six-bit scale and min of sub-block j of Q4_K and Q5_K.
int k_scale(const std::uint8_t* s, int j) { return j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4; }
int k_min(const std::uint8_t* s, int j) { return j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4; }

void expand(const BlockQ4K& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const float scale = f16_to_f32(b.d) * static_cast<float>(k_scale(b.scales, i / 32));
    const float min = f16_to_f32(b.dmin) * static_cast<float>(k_min(b.scales, i / 32));
    y[i] = scale * static_cast<float>(k_nibble(b.qs, i)) - min;
  }
}

void expand(const BlockQ5K& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const float scale = f16_to_f32(b.d) * static_cast<float>(k_scale(b.scales, i / 32));
    const float min = f16_to_f32(b.dmin) * static_cast<float>(k_min(b.scales, i / 32));
    const int high = b.qh[i % 32] >> (i / 32) & 1;
    y[i] = scale * static_cast<float>(k_nibble(b.qs, i) | high << 4) - min;
  }
}

void expand(const BlockQ6K& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int low = b.ql[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
    const int high = two_bits(b.qh, i);
    y[i] = f16_to_f32(b.d) * static_cast<float>(b.scales[i / 16]) * static_cast<float>((low | high << 4) - 32);
  }
}

void expand(const BlockIQ4XS& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int j = i / 32;
    const int scale = ((b.scales_l[j / 2] >> (j % 2 * 4) & 15) | (b.scales_h >> (2 * j) & 3) << 4) - 32;
    const int value = kIq4Values[nibble(b.qs + j * 16, i % 32)];
    y[i] = f16_to_f32(b.d) * static_cast<float>(scale) * static_cast<float>(value);
  }
}

void expand(const BlockMXFP4& b, float* y) {
  for (int i = 0; i < 32; ++i) y[i] = half_power_of_two(b.exponent) * static_cast<float>(kMxfp4Values[nibble(b.qs, i)]);
}

/// The values of a small format are those of the groups that it indexes; no product here is rounded.
template <class Block>
void expand(const Block& b, float* y) {
  constexpr PanelFormat kFormat = kPanelFormat<PanelBlockOf<Block>>;
  RowGroup g;
  unpack(b, g);
  for (int i = 0; i < 256; ++i) {
    const int number = static_cast<int>(g.steps[i / 32][i % 32 / 4] >> i % 4 * 8 & 255);
    if constexpr (kFormat.lookup())
      y[i] = f16_to_f32(g.d) * g.scale * static_cast<float>(g.scales[i / 16] - 32) * static_cast<float>(table_of(kFormat.values)[number]);
    else
      y[i] = f16_to_f32(g.d) * static_cast<float>(number - 1);
  }
}

template <class Block, int kElements>
void expand_all(const std::byte* src, std::int64_t n, float* dst) {
  for (std::int64_t i = 0; i < n; i += kElements, src += sizeof(Block)) {
    Block block;
    std::memcpy(&block, src, sizeof block);
    expand(block, dst + i);
  }
}

void expand_halves(const std::byte* src, std::int64_t n, float* dst, bool bf16) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint16_t half;
    std::memcpy(&half, src + 2 * i, sizeof half);
    dst[i] = bf16 ? float_of_bits(static_cast<std::uint32_t>(half) << 16) : f16_to_f32(half);
  }
}

}  // namespace

float f16_to_f32(std::uint16_t half) { return half_to_float(half); }

std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffffu;
  const std::uint16_t sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65536 and more, infinity
  if (magnitude < 0x38800000u) {
    // Subnormal half: after adding 0.5, the multiple of 2^-24 is in the low bits, rounded to even.
    const float shifted = float_of_bits(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (bits_of_float(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);  // the carry may lead to infinity
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

void dequantize(TensorType type, const std::byte* src, std::int64_t n, float* dst) {
  switch (type) {
    case TensorType::F32:
      std::memcpy(dst, src, static_cast<std::size_t>(n) * sizeof(float));
      break;
    case TensorType::F16:
      expand_halves(src, n, dst, false);
      break;
    case TensorType::BF16:
      expand_halves(src, n, dst, true);
      break;
    case TensorType::Q4_0:
      expand_all<BlockQ4_0, 32>(src, n, dst);
      break;
    case TensorType::Q4_1:
      expand_all<BlockQ4_1, 32>(src, n, dst);
      break;
    case TensorType::Q5_0:
      expand_all<BlockQ5_0, 32>(src, n, dst);
      break;
    case TensorType::Q5_1:
      expand_all<BlockQ5_1, 32>(src, n, dst);
      break;
    case TensorType::Q8_0:
      expand_all<BlockQ8_0, 32>(src, n, dst);
      break;
    case TensorType::Q2_K:
      expand_all<BlockQ2K, 256>(src, n, dst);
      break;
    case TensorType::Q3_K:
      expand_all<BlockQ3K, 256>(src, n, dst);
      break;
    case TensorType::Q4_K:
      expand_all<BlockQ4K, 256>(src, n, dst);
      break;
    case TensorType::Q5_K:
      expand_all<BlockQ5K, 256>(src, n, dst);
      break;
    case TensorType::Q6_K:
      expand_all<BlockQ6K, 256>(src, n, dst);
      break;
    case TensorType::IQ4_NL:
      expand_all<BlockIQ4NL, 32>(src, n, dst);
      break;
    case TensorType::IQ4_XS:
      expand_all<BlockIQ4XS, 256>(src, n, dst);
      break;
    case TensorType::MXFP4:
      expand_all<BlockMXFP4, 32>(src, n, dst);
      break;
    case TensorType::IQ2_XXS:
      expand_all<BlockIQ2XXS, 256>(src, n, dst);
      break;
    case TensorType::IQ2_XS:
      expand_all<BlockIQ2XS, 256>(src, n, dst);
      break;
    case TensorType::IQ2_S:
      expand_all<BlockIQ2S, 256>(src, n, dst);
      break;
    case TensorType::IQ3_XXS:
      expand_all<BlockIQ3XXS, 256>(src, n, dst);
      break;
    case TensorType::IQ3_S:
      expand_all<BlockIQ3S, 256>(src, n, dst);
      break;
    case TensorType::IQ1_S:
      expand_all<BlockIQ1S, 256>(src, n, dst);
      break;
    case TensorType::IQ1_M:
      expand_all<BlockIQ1M, 256>(src, n, dst);
      break;
    case TensorType::TQ1_0:
      expand_all<BlockTQ1_0, 256>(src, n, dst);
      break;
    case TensorType::TQ2_0:
      expand_all<BlockTQ2_0, 256>(src, n, dst);
      break;
  }
}

}  // namespace yamata::cpu
