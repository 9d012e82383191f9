#pragma once
// The vector layer in plain C++: the reference that every other instruction set must equal bit for bit. Each vec_*.hpp defines the same
// types and functions; their meaning is defined here.
#include <cstdint>

#include "node/cpu/kernels/half.hpp"
#include "node/cpu/kernels/kernels.hpp"

namespace yamata::cpu {
namespace {

struct F32x16 {
  float lane[16];
};
struct I32x16 {
  std::int32_t lane[16];
};

constexpr int kFloatColumns = 4;
/// Unrolling of attention, as far as there are registers: keys that a query is multiplied by at once; queries and parts of 16 elements to
/// which values are added at once.
constexpr int kKeysAtOnce = 8, kQueriesAtOnce = 2, kPartsAtOnce = 2, kPartsOfOne = 4;

template <class Op>
inline F32x16 each(Op op) {
  F32x16 out;
  for (int i = 0; i < 16; ++i) out.lane[i] = op(i);
  return out;
}

inline F32x16 set1(float x) {
  return each([=](int) { return x; });
}
inline F32x16 load(const float* p) {
  return each([=](int i) { return p[i]; });
}
inline void store(float* p, const F32x16& a) { __builtin_memcpy(p, a.lane, sizeof a.lane); }
inline F32x16 add(const F32x16& a, const F32x16& b) {
  return each([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline F32x16 sub(const F32x16& a, const F32x16& b) {
  return each([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline F32x16 mul(const F32x16& a, const F32x16& b) {
  return each([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline F32x16 div(const F32x16& a, const F32x16& b) {
  return each([&](int i) { return a.lane[i] / b.lane[i]; });
}
/// a * b + c, rounded once
inline F32x16 fma(const F32x16& a, const F32x16& b, const F32x16& c) {
  return each([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
inline F32x16 max(const F32x16& a, const F32x16& b) {
  return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline F32x16 min(const F32x16& a, const F32x16& b) {
  return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline F32x16 abs(const F32x16& a) {
  return each([&](int i) { return __builtin_fabsf(a.lane[i]); });
}

inline F32x16 load_f16(const std::uint16_t* p) {
  return each([=](int i) { return half_to_float(p[i]); });
}
inline F32x16 load_bf16(const std::uint16_t* p) {
  return each([=](int i) { return float_of_bits(static_cast<std::uint32_t>(p[i]) << 16); });
}
/// Stores 16 floats as halves, rounded to nearest, ties to even
inline void store_f16(std::uint16_t* p, const F32x16& a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(a.lane[i]);
}
/// 16 signed bytes as floats
inline F32x16 load_i8(const std::int8_t* p) {
  return each([=](int i) { return static_cast<float>(p[i]); });
}
inline float widen_half(std::uint16_t half) { return half_to_float(half); }

/// l[j]+l[j+8], then [j]+[j+4], [j]+[j+2], [0]+[1]
inline float reduce_add(const F32x16& a) {
  float s[8];
  for (int i = 0; i < 8; ++i) s[i] = a.lane[i] + a.lane[i + 8];
  for (int i = 0; i < 4; ++i) s[i] += s[i + 4];
  for (int i = 0; i < 2; ++i) s[i] += s[i + 2];
  return s[0] + s[1];
}
/// Sums of 32 bytes: for the first 16, of the first two of every four bytes, and of the other two; then the same for the last 16
inline void sum_bytes(const std::int8_t* p, std::int16_t* sums) {
  for (int i = 0; i < 4; ++i) {
    int sum = 0;
    for (int four = 0; four < 16; four += 4) sum += p[i / 2 * 16 + four + i % 2 * 2] + p[i / 2 * 16 + four + i % 2 * 2 + 1];
    sums[i] = static_cast<std::int16_t>(sum);
  }
}
/// 8 floats, repeated twice
inline F32x16 load_twice(const float* p) {
  return each([=](int i) { return p[i % 8]; });
}
/// Stores the first eight lanes of a, those of b, the last eight lanes of a, those of b
inline void store_eights(float* p, const F32x16& a, const F32x16& b) {
  for (int i = 0; i < 8; ++i) p[i] = a.lane[i], p[8 + i] = b.lane[i], p[16 + i] = a.lane[8 + i], p[24 + i] = b.lane[8 + i];
}
/// Sums of eight lanes of kKeysAtOnce / 2 vectors, added as [j]+[j+4], [j]+[j+2], [0]+[1]: the first halves of vectors 0 to 3, their second
/// halves, then the same of vectors 4 to 7
inline void reduce_eights(const F32x16* a, float* out) {
  for (int i = 0; i < 8; ++i) {
    const float* s = a[i % 4].lane + i / 4 * 8;
    out[i] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  }
}
inline float reduce_max(const F32x16& a) {
  float m = a.lane[0];
  for (int i = 1; i < 16; ++i) m = a.lane[i] > m ? a.lane[i] : m;
  return m;
}

inline F32x16 from_int(const I32x16& a) {
  return each([&](int i) { return static_cast<float>(a.lane[i]); });
}
/// The floats must be integers
inline I32x16 to_int(const F32x16& a) {
  I32x16 out;
  for (int i = 0; i < 16; ++i) out.lane[i] = static_cast<std::int32_t>(a.lane[i]);
  return out;
}
/// a / 2, rounded down
inline I32x16 halve(const I32x16& a) {
  I32x16 out;
  for (int i = 0; i < 16; ++i) out.lane[i] = a.lane[i] >> 1;
  return out;
}
inline I32x16 sub(const I32x16& a, const I32x16& b) {
  I32x16 out;
  for (int i = 0; i < 16; ++i) out.lane[i] = a.lane[i] - b.lane[i];
  return out;
}
/// 2 to the power a, for a from -126 to 127
inline F32x16 pow2(const I32x16& a) {
  return each([&](int i) { return float_of_bits(static_cast<std::uint32_t>(a.lane[i] + 127) << 23); });
}
inline void store_i8(std::int8_t* p, const I32x16& a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(a.lane[i]);
}

}  // namespace
}  // namespace yamata::cpu
