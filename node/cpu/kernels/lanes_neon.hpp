#pragma once
// One lane per row, for NEON; with YAMATA_DOTPROD also the dot product instructions, with YAMATA_I8MM also the matrix instructions.
// lanes_contract.hpp defines the functions.
#include <cstdint>

namespace yamata::cpu {
namespace {

#ifdef YAMATA_I8MM  // the registers hold the sums of 4 rows and 8 tokens twice, as floats and as integers
constexpr int kRows = 4;
constexpr int kColumnsAtOnce = 2;
#else
constexpr int kRows = 8;
constexpr int kColumnsAtOnce = 1;
#endif
constexpr int kVectors = kRows / 4;
constexpr int kTileColumns = 8;
template <bool kSigned>
constexpr int kFewColumns = 0;
template <bool>
constexpr int kPrefetchBytes = 4096;
constexpr int kPrefetchL2Bytes = 0;
template <int>
constexpr bool prefetches_to_l2() {
  return false;
}
constexpr bool kSubCompensation = false;
constexpr int kSignedZeroPoint = 0;
template <int kBits>
constexpr int kStepsToFlush = 8;

struct RowFloats {
  float32x4_t v[kVectors];
};
struct RowInts {
  int32x4_t v[kVectors];
};
struct RowPairs {
  int16x8_t v[kVectors];
};
struct RowBytes {
  uint8x16_t v[kVectors];
};
using PartialSums = RowInts;
using SubFactor = RowInts;

#define YAMATA_EACH(type, expression)                                               \
  type out;                                                                         \
  _Pragma("GCC unroll 2") for (int i = 0; i < kVectors; ++i) out.v[i] = expression; \
  return out

inline RowFloats row_floats(float x) { YAMATA_EACH(RowFloats, vdupq_n_f32(x)); }
inline RowFloats load_rows(const float* p) { YAMATA_EACH(RowFloats, vld1q_f32(p + 4 * i)); }
inline void store_rows(float* p, const RowFloats& a) {
  for (int i = 0; i < kVectors; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
inline RowFloats add(const RowFloats& a, const RowFloats& b) { YAMATA_EACH(RowFloats, vaddq_f32(a.v[i], b.v[i])); }
inline RowFloats mul(const RowFloats& a, const RowFloats& b) { YAMATA_EACH(RowFloats, vmulq_f32(a.v[i], b.v[i])); }
inline RowFloats fma(const RowFloats& a, const RowFloats& b, const RowFloats& c) {
  YAMATA_EACH(RowFloats, vfmaq_f32(c.v[i], a.v[i], b.v[i]));
}
#ifdef YAMATA_SIMDE  // SIMDe has half floats only if the compiler has them
inline RowFloats from_halves(const std::uint16_t* p) {
  float wide[kRows];
  for (int i = 0; i < kRows; ++i) wide[i] = half_to_float(p[i]);
  return load_rows(wide);
}
#else
inline RowFloats from_halves(const std::uint16_t* p) { YAMATA_EACH(RowFloats, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)))); }
#endif
inline RowFloats from_ints(const RowInts& a) { YAMATA_EACH(RowFloats, vcvtq_f32_s32(a.v[i])); }
inline RowFloats from_bytes(const std::int8_t* p) {  // reads 8 bytes, also for 4 rows
  const int16x8_t wide = vmovl_s8(vld1_s8(p));
  YAMATA_EACH(RowFloats, vcvtq_f32_s32(vmovl_s16(i == 0 ? vget_low_s16(wide) : vget_high_s16(wide))));
}
inline RowInts add(const RowInts& a, const RowInts& b) { YAMATA_EACH(RowInts, vaddq_s32(a.v[i], b.v[i])); }
inline RowInts sub(const RowInts& a, const RowInts& b) { YAMATA_EACH(RowInts, vsubq_s32(a.v[i], b.v[i])); }
template <int kShift>
inline RowInts row_ints(const std::int32_t* p) {
  YAMATA_EACH(RowInts, vdupq_n_s32(*p << kShift));
}

inline RowPairs row_pairs(int x) { YAMATA_EACH(RowPairs, vdupq_n_s16(static_cast<std::int16_t>(x))); }
inline RowPairs load_pairs(const std::int8_t* p) { YAMATA_EACH(RowPairs, vmovl_s8(vld1_s8(p + 8 * i))); }
inline RowPairs mul(const RowPairs& a, const RowPairs& b) { YAMATA_EACH(RowPairs, vmulq_s16(a.v[i], b.v[i])); }
inline int32x4_t dot_pairs4(int16x8_t a, int16x8_t x) {
  return vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(x)), vmull_s16(vget_high_s16(a), vget_high_s16(x)));
}
inline std::int32_t word_at(const void* p) {
  std::int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return word;
}
inline RowInts dot_pairs(const RowPairs& a, const std::int16_t* x) {
  const int16x8_t both = vreinterpretq_s16_s32(vdupq_n_s32(word_at(x)));
  YAMATA_EACH(RowInts, dot_pairs4(a.v[i], both));
}

inline RowBytes load_row_bytes(const std::uint8_t* p) { YAMATA_EACH(RowBytes, vld1q_u8(p + 16 * i)); }
template <int kShift, int kBits>
inline uint8x16_t field16(uint8x16_t a) {
  if constexpr (kShift == 0)
    return vandq_u8(a, vdupq_n_u8((1 << kBits) - 1));
  else if constexpr (kShift + kBits == 8)
    return vshrq_n_u8(a, kShift);
  else
    return vandq_u8(vshrq_n_u8(a, kShift), vdupq_n_u8((1 << kBits) - 1));
}
template <int kShift, int kBits>
inline RowBytes field(const RowBytes& a) {
  YAMATA_EACH(RowBytes, (field16<kShift, kBits>(a.v[i])));
}
template <int kShift, int kBits, int kTo>
inline RowBytes join_high(const RowBytes& low, const RowBytes& high) {
  YAMATA_EACH(RowBytes, vorrq_u8(low.v[i], vshlq_n_u8((field16<kShift, kBits>(high.v[i])), kTo)));
}
inline RowBytes look_up(const RowBytes& index, const std::int8_t* table) {
  const uint8x16_t values = vreinterpretq_u8_s8(vld1q_s8(table));
  YAMATA_EACH(RowBytes, vqtbl1q_u8(values, index.v[i]));
}
inline RowBytes signed_bytes(const RowBytes& a) { return a; }

#ifdef YAMATA_DOTPROD
template <int kStep>
inline int32x4_t dot4(int32x4_t sum, uint8x16_t w, const std::int8_t* x) {
  return vdotq_laneq_s32(sum, vreinterpretq_s8_u8(w), vld1q_s8(x + kStep / 4 * 16), kStep % 4);
}
#else
template <int kStep>
inline int32x4_t dot4(int32x4_t sum, uint8x16_t weights, const std::int8_t* x) {
  const int8x8_t four = vreinterpret_s8_s32(vdup_n_s32(word_at(x + 4 * kStep)));
  const int8x16_t w = vreinterpretq_s8_u8(weights);
  return vpadalq_s16(sum, vpaddq_s16(vmull_s8(vget_low_s8(w), four), vmull_s8(vget_high_s8(w), four)));
}
#endif
template <int kStep>
inline PartialSums dot(const PartialSums& sum, const RowBytes& w, const std::int8_t* x) {
  YAMATA_EACH(PartialSums, dot4<kStep>(sum.v[i], w.v[i], x));
}
template <int kStep>
inline PartialSums dot(const RowBytes& w, const std::int8_t* x) {
  return dot<kStep>({}, w, x);
}
inline RowInts flush(const PartialSums& p) { return p; }

template <int kSub>
inline int32x4_t sub_factor4(int32x4_t scales) {
  return vshrq_n_s32(kSub == 0 ? vshlq_n_s32(scales, 16) : scales, 16);
}
template <int kSub>
inline SubFactor sub_factor(const RowPairs& scales) {
  YAMATA_EACH(SubFactor, sub_factor4<kSub>(vreinterpretq_s32_s16(scales.v[i])));
}
inline RowInts flush(const PartialSums& p, const SubFactor& scale) { YAMATA_EACH(RowInts, vmulq_s32(p.v[i], scale.v[i])); }

#ifdef YAMATA_I8MM
/// [row][token] sums of products of [row][8] weights with [token][8] activations.
#ifdef YAMATA_SIMDE  // SIMDe lacks it
inline int32x4_t matrix_dot(int32x4_t sum, int8x16_t weights, int8x16_t tokens) {
  std::int32_t sums[4];
  std::int8_t w[16], x[16];
  vst1q_s32(sums, sum), vst1q_s8(w, weights), vst1q_s8(x, tokens);
  for (int i = 0; i < 32; ++i) sums[i / 8] += w[i / 16 * 8 + i % 8] * x[i % 16];
  return vld1q_s32(sums);
}
#else
inline int32x4_t matrix_dot(int32x4_t sum, int8x16_t weights, int8x16_t tokens) { return vmmlaq_s32(sum, weights, tokens); }
#endif

/// The bytes of kSteps steps: of rows 0 and 1, then of rows 2 and 3, each two steps as [row][8].
template <int kSteps>
struct JoinedSteps {
  int8x16_t v[2][kSteps / 2];
};
template <class... Steps>
inline JoinedSteps<sizeof...(Steps)> join_steps(const Steps&... steps) {
  const uint8x16_t all[] = {steps.v[0]...};
  JoinedSteps<sizeof...(Steps)> out;
#pragma GCC unroll 4
  for (unsigned i = 0; i < sizeof...(Steps) / 2; ++i) {
    const int32x4_t first = vreinterpretq_s32_u8(all[2 * i]), second = vreinterpretq_s32_u8(all[2 * i + 1]);
    out.v[0][i] = vreinterpretq_s8_s32(vzip1q_s32(first, second));
    out.v[1][i] = vreinterpretq_s8_s32(vzip2q_s32(first, second));
  }
  return out;
}
template <int kStep, int kSteps>
inline void dot_pair(const JoinedSteps<kSteps>& w, const std::int8_t* x0, const std::int8_t* x1, PartialSums& sum0, PartialSums& sum1) {
  int32x4_t low = vzip1q_s32(sum0.v[0], sum1.v[0]), high = vzip2q_s32(sum0.v[0], sum1.v[0]);  // rows 0 and 1, 2 and 3: [row][token]
#pragma GCC unroll 4
  for (int i = 0; i < kSteps / 2; ++i) {
    const int at = 4 * kStep + i / 2 * 16;
    const int64x2_t four0 = vreinterpretq_s64_s8(vld1q_s8(x0 + at)), four1 = vreinterpretq_s64_s8(vld1q_s8(x1 + at));  // steps
    const int8x16_t x = vreinterpretq_s8_s64(i % 2 == 0 ? vzip1q_s64(four0, four1) : vzip2q_s64(four0, four1));
    low = matrix_dot(low, w.v[0][i], x);
    high = matrix_dot(high, w.v[1][i], x);
  }
  sum0.v[0] = vuzp1q_s32(low, high), sum1.v[0] = vuzp2q_s32(low, high);
}
#endif

#undef YAMATA_EACH

}  // namespace
}  // namespace yamata::cpu
