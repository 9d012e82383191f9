#pragma once
// One lane per row, for NEON, with the dot product instructions where YAMATA_DOTPROD is set; matmul_template.hpp says what each
// function means.
#include <cstdint>

namespace yamata::cpu {
namespace {

constexpr int kRows = 8;
constexpr int kTileColumns = 8;
constexpr int kSignedBias = 0;
template <int kBits>
constexpr int kStepsToFlush = 8;

struct RowFloats { float32x4_t v[2]; };
struct RowInts { int32x4_t v[2]; };
struct RowPairs { int16x8_t v[2]; };
struct RowBytes { uint8x16_t v[2]; };
using PartialSums = RowInts;
using RunFactor = RowInts;

inline RowFloats row_floats(float x) { return {{vdupq_n_f32(x), vdupq_n_f32(x)}}; }
inline RowFloats load_rows(const float* p) { return {{vld1q_f32(p), vld1q_f32(p + 4)}}; }
inline void store_rows(float* p, const RowFloats& a) { vst1q_f32(p, a.v[0]), vst1q_f32(p + 4, a.v[1]); }
inline RowFloats add(const RowFloats& a, const RowFloats& b) { return {{vaddq_f32(a.v[0], b.v[0]), vaddq_f32(a.v[1], b.v[1])}}; }
inline RowFloats mul(const RowFloats& a, const RowFloats& b) { return {{vmulq_f32(a.v[0], b.v[0]), vmulq_f32(a.v[1], b.v[1])}}; }
inline RowFloats fma(const RowFloats& a, const RowFloats& b, const RowFloats& c) {
  return {{vfmaq_f32(c.v[0], a.v[0], b.v[0]), vfmaq_f32(c.v[1], a.v[1], b.v[1])}};
}
#ifdef YAMATA_SIMDE  // which has half floats only with a compiler's own
inline RowFloats from_halves(const std::uint16_t* p) {
  float wide[8];
  for (int i = 0; i < 8; ++i) wide[i] = half_to_float(p[i]);
  return load_rows(wide);
}
#else
inline float32x4_t widen_halves(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline RowFloats from_halves(const std::uint16_t* p) { return {{widen_halves(p), widen_halves(p + 4)}}; }
#endif
inline RowInts widen(int16x8_t a) { return {{vmovl_s16(vget_low_s16(a)), vmovl_s16(vget_high_s16(a))}}; }
inline RowFloats from_ints(const RowInts& a) { return {{vcvtq_f32_s32(a.v[0]), vcvtq_f32_s32(a.v[1])}}; }
inline RowFloats from_bytes(const std::int8_t* p) { return from_ints(widen(vmovl_s8(vld1_s8(p)))); }
inline RowInts add(const RowInts& a, const RowInts& b) { return {{vaddq_s32(a.v[0], b.v[0]), vaddq_s32(a.v[1], b.v[1])}}; }
inline RowInts sub(const RowInts& a, const RowInts& b) { return {{vsubq_s32(a.v[0], b.v[0]), vsubq_s32(a.v[1], b.v[1])}}; }
template <int kShift>
inline RowInts row_ints(const std::int32_t* p) {
  const int32x4_t all = vdupq_n_s32(*p << kShift);
  return {{all, all}};
}

inline RowPairs row_pairs(int x) {
  const int16x8_t all = vdupq_n_s16(static_cast<std::int16_t>(x));
  return {{all, all}};
}
inline RowPairs load_pairs(const std::int8_t* p) { return {{vmovl_s8(vld1_s8(p)), vmovl_s8(vld1_s8(p + 8))}}; }
inline RowPairs mul(const RowPairs& a, const RowPairs& b) { return {{vmulq_s16(a.v[0], b.v[0]), vmulq_s16(a.v[1], b.v[1])}}; }
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
  return {{dot_pairs4(a.v[0], both), dot_pairs4(a.v[1], both)}};
}

inline RowBytes load_row_bytes(const std::uint8_t* p) { return {{vld1q_u8(p), vld1q_u8(p + 16)}}; }
template <int kShift, int kBits>
inline uint8x16_t field16(uint8x16_t a) {
  if constexpr (kShift == 0) return vandq_u8(a, vdupq_n_u8((1 << kBits) - 1));
  else if constexpr (kShift + kBits == 8) return vshrq_n_u8(a, kShift);
  else return vandq_u8(vshrq_n_u8(a, kShift), vdupq_n_u8((1 << kBits) - 1));
}
template <int kShift, int kBits>
inline RowBytes field(const RowBytes& a) { return {{field16<kShift, kBits>(a.v[0]), field16<kShift, kBits>(a.v[1])}}; }
template <int kShift>
inline RowBytes join_high(const RowBytes& low, const RowBytes& high) {
  return {{vorrq_u8(low.v[0], vshlq_n_u8(high.v[0], kShift)), vorrq_u8(low.v[1], vshlq_n_u8(high.v[1], kShift))}};
}
inline RowBytes look_up(const RowBytes& index, const std::int8_t* table) {
  const uint8x16_t values = vreinterpretq_u8_s8(vld1q_s8(table));
  return {{vqtbl1q_u8(values, index.v[0]), vqtbl1q_u8(values, index.v[1])}};
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
  return {{dot4<kStep>(sum.v[0], w.v[0], x), dot4<kStep>(sum.v[1], w.v[1], x)}};
}
template <int kStep>
inline PartialSums dot(const RowBytes& w, const std::int8_t* x) { return dot<kStep>({{vdupq_n_s32(0), vdupq_n_s32(0)}}, w, x); }
inline RowInts flush(const PartialSums& p) { return p; }

template <int kRun>
inline RunFactor run_factor(const RowPairs& scales) {
  return widen(kRun == 0 ? vuzp1q_s16(scales.v[0], scales.v[1]) : vuzp2q_s16(scales.v[0], scales.v[1]));
}
inline RowInts flush(const PartialSums& p, const RunFactor& scale) {
  return {{vmulq_s32(p.v[0], scale.v[0]), vmulq_s32(p.v[1], scale.v[1])}};
}

}  // namespace
}  // namespace yamata::cpu
