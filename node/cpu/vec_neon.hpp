#pragma once
// The vector layer for NEON, with the dot product instructions where YAMATA_DOTPROD is set;
// vec_scalar.hpp says what each function means.
#ifdef YAMATA_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>
#else
#include <arm_neon.h>
#endif

#include <cstdint>

#include "node/cpu/half.hpp"
#include "node/cpu/kernels.hpp"

namespace yamata::cpu {
namespace {

struct F32x16 { float32x4_t v[4]; };
struct I32x16 { int32x4_t v[4]; };
struct I8x32 { uint8x16_t v[2]; };
struct I8x64 { int8x16_t v[4]; };
struct SignedOperand { I8x64 w; };
struct UnsignedOperand { I8x64 w; };

constexpr int kFloatColumns = 4;

#define YAMATA_EACH(type, parts, expression)              \
  type out;                                               \
  _Pragma("GCC unroll 4") for (int i = 0; i < parts; ++i) \
    out.v[i] = expression;                                \
  return out

inline F32x16 set1(float x) { YAMATA_EACH(F32x16, 4, vdupq_n_f32(x)); }
inline F32x16 load(const float* p) { YAMATA_EACH(F32x16, 4, vld1q_f32(p + 4 * i)); }
inline void store(float* p, const F32x16& a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
inline F32x16 add(const F32x16& a, const F32x16& b) { YAMATA_EACH(F32x16, 4, vaddq_f32(a.v[i], b.v[i])); }
inline F32x16 sub(const F32x16& a, const F32x16& b) { YAMATA_EACH(F32x16, 4, vsubq_f32(a.v[i], b.v[i])); }
inline F32x16 mul(const F32x16& a, const F32x16& b) { YAMATA_EACH(F32x16, 4, vmulq_f32(a.v[i], b.v[i])); }
inline F32x16 fma(const F32x16& a, const F32x16& b, const F32x16& c) {
  YAMATA_EACH(F32x16, 4, vfmaq_f32(c.v[i], a.v[i], b.v[i]));
}
inline F32x16 max(const F32x16& a, const F32x16& b) {
  YAMATA_EACH(F32x16, 4, vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]));
}
inline F32x16 min(const F32x16& a, const F32x16& b) {
  YAMATA_EACH(F32x16, 4, vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]));
}
inline F32x16 abs(const F32x16& a) { YAMATA_EACH(F32x16, 4, vabsq_f32(a.v[i])); }
inline F32x16 spread2(const float* p) { YAMATA_EACH(F32x16, 4, vdupq_n_f32(p[i / 2])); }
inline F32x16 spread4(const float* p) { YAMATA_EACH(F32x16, 4, vdupq_n_f32(p[i])); }
#ifdef YAMATA_SIMDE  // which has no division, and half floats only with a compiler's own
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
inline F32x16 div(const F32x16& a, const F32x16& b) { YAMATA_EACH(F32x16, 4, vdivq_f32(a.v[i], b.v[i])); }
inline F32x16 load_f16(const std::uint16_t* p) {
  YAMATA_EACH(F32x16, 4, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))));
}
inline void store_f16(std::uint16_t* p, const F32x16& a) {
  for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
inline float widen_half(std::uint16_t half) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
}
#endif
inline F32x16 load_bf16(const std::uint16_t* p) {
  YAMATA_EACH(F32x16, 4, vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(p + 4 * i)), 16)));
}
inline F32x16 from_int(const I32x16& a) { YAMATA_EACH(F32x16, 4, vcvtq_f32_s32(a.v[i])); }
inline F32x16 load_i8(const std::int8_t* p) {
  const int8x16_t bytes = vld1q_s8(p);
  const int16x8_t lo = vmovl_s8(vget_low_s8(bytes)), hi = vmovl_s8(vget_high_s8(bytes));
  return from_int({{vmovl_s16(vget_low_s16(lo)), vmovl_s16(vget_high_s16(lo)), vmovl_s16(vget_low_s16(hi)),
                    vmovl_s16(vget_high_s16(hi))}});
}
inline float32x4_t fold4(const F32x16& a) { return vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3])); }
inline float reduce_add(const F32x16& a) {
  const float32x4_t four = fold4(a);
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
/// The lower halves of both plus their upper halves.
inline float32x4_t fold2(float32x4_t a, float32x4_t b) {
  return vaddq_f32(vcombine_f32(vget_low_f32(a), vget_low_f32(b)), vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
}
inline void reduce_add4(const F32x16* a, float* out) {
  vst1q_f32(out, vpaddq_f32(fold2(fold4(a[0]), fold4(a[1])), fold2(fold4(a[2]), fold4(a[3]))));
}
inline float reduce_max(const F32x16& a) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3])));
}
inline I32x16 to_int(const F32x16& a) { YAMATA_EACH(I32x16, 4, vcvtq_s32_f32(a.v[i])); }
inline I32x16 halve(const I32x16& a) { YAMATA_EACH(I32x16, 4, vshrq_n_s32(a.v[i], 1)); }
inline I32x16 sub(const I32x16& a, const I32x16& b) { YAMATA_EACH(I32x16, 4, vsubq_s32(a.v[i], b.v[i])); }
inline F32x16 pow2(const I32x16& a) {
  YAMATA_EACH(F32x16, 4, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(a.v[i], vdupq_n_s32(127)), 23)));
}
inline void store_i8(std::int8_t* p, const I32x16& a) {
  const int16x8_t lo = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1]));
  const int16x8_t hi = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
  vst1q_s8(p, vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
}

inline I8x32 load32(const void* p) { YAMATA_EACH(I8x32, 2, vld1q_u8(static_cast<const std::uint8_t*>(p) + 16 * i)); }
inline I8x32 nibbles(const std::uint8_t* p) {
  const uint8x16_t bytes = vld1q_u8(p);
  return {{vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8(bytes, 4)}};
}
template <int kBits>
inline I8x32 shr(const I8x32& a) {
  if constexpr (kBits == 0) return a;  // the instruction shifts by 1 or more
  else { YAMATA_EACH(I8x32, 2, vshrq_n_u8(a.v[i], kBits)); }
}
template <int kBits>
inline I8x32 shl(const I8x32& a) { YAMATA_EACH(I8x32, 2, vshlq_n_u8(a.v[i], kBits)); }
inline uint8x16_t every_byte(int k) { return vdupq_n_u8(static_cast<std::uint8_t>(k)); }
inline I8x32 mask(const I8x32& a, int bits) { YAMATA_EACH(I8x32, 2, vandq_u8(a.v[i], every_byte(bits))); }
inline I8x32 join(const I8x32& a, const I8x32& b) { YAMATA_EACH(I8x32, 2, vorrq_u8(a.v[i], b.v[i])); }
inline I8x32 minus(const I8x32& a, int k) { YAMATA_EACH(I8x32, 2, vsubq_u8(a.v[i], every_byte(k))); }
inline I8x32 bits32(const std::uint8_t* p, int value) {
  const uint8x8_t bit_of = vcreate_u8(0x8040201008040201ull);
  const uint8x16_t bits = vcombine_u8(bit_of, bit_of);
  YAMATA_EACH(I8x32, 2, vandq_u8(vtstq_u8(vcombine_u8(vdup_n_u8(p[2 * i]), vdup_n_u8(p[2 * i + 1])), bits),
                                 every_byte(value)));
}
inline I8x32 lookup(const I8x32& index, const std::int8_t* table) {
  const int8x16_t values = vld1q_s8(table);
  YAMATA_EACH(I8x32, 2, vreinterpretq_u8_s8(vqtbl1q_s8(values, index.v[i])));
}

inline I8x64 combine(const I8x32& a, const I8x32& b) {
  return {{vreinterpretq_s8_u8(a.v[0]), vreinterpretq_s8_u8(a.v[1]), vreinterpretq_s8_u8(b.v[0]),
           vreinterpretq_s8_u8(b.v[1])}};
}
inline I8x64 load64(const std::int8_t* p) { YAMATA_EACH(I8x64, 4, vld1q_s8(p + 16 * i)); }
inline void prepare(const I8x64& w, SignedOperand& out) { out.w = w; }
inline void prepare(const I8x64& w, UnsignedOperand& out) { out.w = w; }

inline int32x4_t dot16(int8x16_t w, int8x16_t x) {
#ifdef YAMATA_DOTPROD
  return vdotq_s32(vdupq_n_s32(0), w, x);
#else
  const int32x4_t lo = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)));
  const int32x4_t hi = vpaddlq_s16(vmull_s8(vget_high_s8(w), vget_high_s8(x)));
  return vpaddq_s32(lo, hi);
#endif
}
inline I32x16 dot(const SignedOperand& w, const I8x64& x) { YAMATA_EACH(I32x16, 4, dot16(w.w.v[i], x.v[i])); }
inline I32x16 dot(const UnsignedOperand& w, const I8x64& x) { YAMATA_EACH(I32x16, 4, dot16(w.w.v[i], x.v[i])); }

#undef YAMATA_EACH

}  // namespace
}  // namespace yamata::cpu
