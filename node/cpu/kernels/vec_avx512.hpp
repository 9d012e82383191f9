#pragma once
// The vector layer for AVX-512 with VNNI; vec_scalar.hpp defines the functions.
#include <cstdint>

#include "node/cpu/kernels/intrinsics.hpp"
#include "node/cpu/kernels/vec_x86.hpp"

namespace yamata::cpu {
namespace {

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};

constexpr int kFloatColumns = 8;
constexpr int kKeysAtOnce = 16, kQueriesAtOnce = 4, kPartsAtOnce = 4, kPartsOfOne = 8;

inline __m512 join_floats(__m256 lo, __m256 hi) { return _mm512_insertf32x8(_mm512_castps256_ps512(lo), hi, 1); }
inline F32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
inline F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
inline F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32x16 div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32x16 abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
inline __m256i low_half(__m512i a) { return _mm512_castsi512_si256(a); }
inline __m256i high_half(__m512i a) { return _mm512_extracti64x4_epi64(a, 1); }
inline __m256 low_half(F32x16 a) { return _mm512_castps512_ps256(a.v); }
inline __m256 high_half(F32x16 a) { return _mm256_castsi256_ps(high_half(_mm512_castps_si512(a.v))); }
inline __m512i join_ints(__m256i lo, __m256i hi) { return _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1); }
inline void store_f16(std::uint16_t* p, F32x16 a) { narrow_halves(p, low_half(a)), narrow_halves(p + 8, high_half(a)); }
#ifdef YAMATA_SIMDE  // SIMDe lacks these in 512 bits
inline F32x16 load_f16(const std::uint16_t* p) { return {join_floats(widen_halves(p), widen_halves(p + 8))}; }
inline F32x16 load_bf16(const std::uint16_t* p) { return {join_floats(widen_bf16(p), widen_bf16(p + 8))}; }
inline F32x16 load_i8(const std::int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {join_floats(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))))};
}
inline F32x16 from_int(I32x16 a) { return {join_floats(_mm256_cvtepi32_ps(low_half(a.v)), _mm256_cvtepi32_ps(high_half(a.v)))}; }
inline I32x16 to_int(F32x16 a) { return {join_ints(_mm256_cvttps_epi32(low_half(a)), _mm256_cvttps_epi32(high_half(a)))}; }
inline I32x16 halve(I32x16 a) { return {join_ints(_mm256_srai_epi32(low_half(a.v), 1), _mm256_srai_epi32(high_half(a.v), 1))}; }
inline void store_i8(std::int8_t* p, I32x16 a) {
  std::int32_t lanes[16];
  __builtin_memcpy(lanes, &a.v, sizeof lanes);
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(lanes[i]);
}
#else
inline F32x16 load_f16(const std::uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
inline F32x16 load_bf16(const std::uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline F32x16 load_i8(const std::int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
inline F32x16 from_int(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I32x16 to_int(F32x16 a) { return {_mm512_cvttps_epi32(a.v)}; }
inline I32x16 halve(I32x16 a) { return {_mm512_srai_epi32(a.v, 1)}; }
inline void store_i8(std::int8_t* p, I32x16 a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v)); }
#endif
inline __m256 fold_halves(F32x16 a) { return _mm256_add_ps(low_half(a), high_half(a)); }
inline float reduce_add(F32x16 a) { return reduce_add8(fold_halves(a)); }
inline F32x16 load_twice(const float* p) { return {_mm512_broadcast_f32x8(_mm256_loadu_ps(p))}; }
inline void store_eights(float* p, F32x16 a, F32x16 b) {
  _mm512_storeu_ps(p, _mm512_shuffle_f32x4(a.v, b.v, 0x44)), _mm512_storeu_ps(p + 16, _mm512_shuffle_f32x4(a.v, b.v, 0xee));
}
/// Adds the two halves of each vector's lanes, first for `a`, then for `b`: within eight, four or two lanes.
inline __m512 fold8(__m512 a, __m512 b) { return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd)); }
inline __m512 fold4(__m512 a, __m512 b) { return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee)); }
inline __m512 fold2(__m512 a, __m512 b) { return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd)); }
inline void reduce_eights(const F32x16* a, float* out) {
  __m512 fours[4];  // of a[i] and a[i + 4]
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) fours[i] = fold8(a[i].v, a[i + 4].v);
  _mm512_storeu_ps(out, fold2(fold4(fours[0], fours[1]), fold4(fours[2], fours[3])));
}
inline float reduce_max(F32x16 a) { return reduce_max8(_mm256_max_ps(low_half(a), high_half(a))); }
inline I32x16 sub(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline F32x16 pow2(I32x16 a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(a.v, _mm512_set1_epi32(127)), 23))}; }

}  // namespace
}  // namespace yamata::cpu
