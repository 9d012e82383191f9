#pragma once
// The vector layer for NEON, with the dot product instructions if YAMATA_DOTPROD is set; vec_scalar.hpp defines the functions.
#define YAMATA_NEON
#include <cstdint>

#include "node/cpu/kernels/half.hpp"
#include "node/cpu/kernels/intrinsics.hpp"
#include "node/cpu/kernels/kernels.hpp"

namespace yamata::cpu {
namespace {

struct F32x16 {
  float32x4_t v[4];
};
struct I32x16 {
  int32x4_t v[4];
};

constexpr int kFloatColumns = 4;
constexpr int kKeysAtOnce = 8, kQueriesAtOnce = 2, kPartsAtOnce = 2, kPartsOfOne = 4;

#define YAMATA_EACH(type, expression)                                        \
  type out;                                                                  \
  _Pragma("GCC unroll 4") for (int i = 0; i < 4; ++i) out.v[i] = expression; \
  return out

inline F32x16 set1(float x) { YAMATA_EACH(F32x16, vdupq_n_f32(x)); }
inline F32x16 load(const float* p) { YAMATA_EACH(F32x16, vld1q_f32(p + 4 * i)); }
inline void store(float* p, const F32x16& a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
inline F32x16 add(const F32x16& a, const F32x16& b) { YAMATA_EACH(F32x16, vaddq_f32(a.v[i], b.v[i])); }
inline F32x16 sub(const F32x16& a, const F32x16& b) { YAMATA_EACH(F32x16, vsubq_f32(a.v[i], b.v[i])); }
inline F32x16 mul(const F32x16& a, const F32x16& b) { YAMATA_EACH(F32x16, vmulq_f32(a.v[i], b.v[i])); }
inline F32x16 fma(const F32x16& a, const F32x16& b, const F32x16& c) { YAMATA_EACH(F32x16, vfmaq_f32(c.v[i], a.v[i], b.v[i])); }
inline F32x16 max(const F32x16& a, const F32x16& b) { YAMATA_EACH(F32x16, vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i])); }
inline F32x16 min(const F32x16& a, const F32x16& b) { YAMATA_EACH(F32x16, vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i])); }
inline F32x16 abs(const F32x16& a) { YAMATA_EACH(F32x16, vabsq_f32(a.v[i])); }
#ifdef YAMATA_SIMDE  // SIMDe has no division, and half floats only if the compiler has them
inline F32x16 div(const F32x16& a, const F32x16& b) {
  float x[16], y[16];
  store(x, a), store(y, b);
  for (int i = 0; i < 16; ++i) x[i] /= y[i];
  return load(x);
}
inline float widen_half(std::uint16_t half) { return half_to_float(half); }
inline F32x16 load_f16(const std::uint16_t* p) {
  float wide[16];
  for (int i = 0; i < 16; ++i) wide[i] = half_to_float(p[i]);
  return load(wide);
}
inline void store_f16(std::uint16_t* p, const F32x16& a) {
  float wide[16];
  store(wide, a);
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(wide[i]);
}
#else
inline F32x16 div(const F32x16& a, const F32x16& b) { YAMATA_EACH(F32x16, vdivq_f32(a.v[i], b.v[i])); }
inline F32x16 load_f16(const std::uint16_t* p) { YAMATA_EACH(F32x16, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)))); }
inline void store_f16(std::uint16_t* p, const F32x16& a) {
  for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
inline float widen_half(std::uint16_t half) { return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0); }
#endif
inline F32x16 load_bf16(const std::uint16_t* p) {
  YAMATA_EACH(F32x16, vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(p + 4 * i)), 16)));
}
inline F32x16 from_int(const I32x16& a) { YAMATA_EACH(F32x16, vcvtq_f32_s32(a.v[i])); }
inline F32x16 load_i8(const std::int8_t* p) {
  const int8x16_t bytes = vld1q_s8(p);
  const int16x8_t lo = vmovl_s8(vget_low_s8(bytes)), hi = vmovl_s8(vget_high_s8(bytes));
  return from_int({{vmovl_s16(vget_low_s16(lo)), vmovl_s16(vget_high_s16(lo)), vmovl_s16(vget_low_s16(hi)), vmovl_s16(vget_high_s16(hi))}});
}
inline float32x4_t fold_sixteen(const F32x16& a) { return vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3])); }
inline void sum_bytes(const std::int8_t* p, std::int16_t* sums) {
  for (int half = 0; half < 2; ++half) {
    const int16x8_t pairs = vpaddlq_s8(vld1q_s8(p + 16 * half));
    const int16x4_t fours = vadd_s16(vget_low_s16(pairs), vget_high_s16(pairs)), eights = vadd_s16(fours, vext_s16(fours, fours, 2));
    sums[2 * half] = vget_lane_s16(eights, 0), sums[2 * half + 1] = vget_lane_s16(eights, 1);
  }
}
inline float reduce_add(const F32x16& a) {
  const float32x4_t four = fold_sixteen(a);
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
/// The lower halves of both plus their upper halves.
inline float32x4_t fold2(float32x4_t a, float32x4_t b) {
  return vaddq_f32(vcombine_f32(vget_low_f32(a), vget_low_f32(b)), vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
}
inline F32x16 load_twice(const float* p) {
  const float32x4_t low = vld1q_f32(p), high = vld1q_f32(p + 4);
  return {{low, high, low, high}};
}
inline void store_eights(float* p, const F32x16& a, const F32x16& b) {
  store(p, {{a.v[0], a.v[1], b.v[0], b.v[1]}}), store(p + 16, {{a.v[2], a.v[3], b.v[2], b.v[3]}});
}
/// Sums of eight lanes of each of four vectors: v[i] and v[i + 1].
template <int i>
inline float32x4_t fold_eights(const F32x16* a) {
  const auto four = [](const F32x16& eights) { return vaddq_f32(eights.v[i], eights.v[i + 1]); };
  return vpaddq_f32(fold2(four(a[0]), four(a[1])), fold2(four(a[2]), four(a[3])));
}
inline void reduce_eights(const F32x16* a, float* out) { vst1q_f32(out, fold_eights<0>(a)), vst1q_f32(out + 4, fold_eights<2>(a)); }
inline float reduce_max(const F32x16& a) { return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3]))); }
inline I32x16 to_int(const F32x16& a) { YAMATA_EACH(I32x16, vcvtq_s32_f32(a.v[i])); }
inline I32x16 halve(const I32x16& a) { YAMATA_EACH(I32x16, vshrq_n_s32(a.v[i], 1)); }
inline I32x16 sub(const I32x16& a, const I32x16& b) { YAMATA_EACH(I32x16, vsubq_s32(a.v[i], b.v[i])); }
inline F32x16 pow2(const I32x16& a) { YAMATA_EACH(F32x16, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(a.v[i], vdupq_n_s32(127)), 23))); }
inline void store_i8(std::int8_t* p, const I32x16& a) {
  const int16x8_t lo = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1]));
  const int16x8_t hi = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
  vst1q_s8(p, vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
}

#undef YAMATA_EACH

}  // namespace
}  // namespace yamata::cpu
