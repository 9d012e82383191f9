#pragma once
// The vector layer for AVX2 with FMA and F16C; vec_scalar.hpp defines the functions.
#include <cstdint>

#include "node/cpu/kernels/intrinsics.hpp"
#include "node/cpu/kernels/vec_x86.hpp"

namespace yamata::cpu {
namespace {

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};

constexpr int kFloatColumns = 4;
constexpr int kKeysAtOnce = 8, kQueriesAtOnce = 3, kPartsAtOnce = 2, kPartsOfOne = 4;

inline F32x16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, F32x16 a) { _mm256_storeu_ps(p, a.lo), _mm256_storeu_ps(p + 8, a.hi); }
inline F32x16 add(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline F32x16 sub(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline F32x16 div(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline F32x16 abs(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline F32x16 load_f16(const std::uint16_t* p) { return {widen_halves(p), widen_halves(p + 8)}; }
inline void store_f16(std::uint16_t* p, F32x16 a) { narrow_halves(p, a.lo), narrow_halves(p + 8, a.hi); }
inline F32x16 load_bf16(const std::uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }
inline F32x16 from_int(I32x16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
inline F32x16 load_i8(const std::int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return from_int({_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))});
}
inline float reduce_add(F32x16 a) { return reduce_add8(_mm256_add_ps(a.lo, a.hi)); }
inline F32x16 load_twice(const float* p) {
  const __m256 eight = _mm256_loadu_ps(p);
  return {eight, eight};
}
inline void store_eights(float* p, F32x16 a, F32x16 b) { store(p, {a.lo, b.lo}), store(p + 16, {a.hi, b.hi}); }
/// Adds the two later lanes of each four to the two earlier ones; results of a and b alternate.
inline __m256 fold_fours(__m256 a, __m256 b) { return _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)); }
inline void reduce_eights(const F32x16* a, float* out) {
  __m256 fours[4];  // of a vector's first eight lanes, then of its other eight
  for (int i = 0; i < 4; ++i) {
    fours[i] = _mm256_add_ps(_mm256_blend_ps(a[i].lo, a[i].hi, 0xf0), _mm256_permute2f128_ps(a[i].lo, a[i].hi, 0x21));
  }
  _mm256_storeu_ps(out, fold_fours(fold_fours(fours[0], fours[2]), fold_fours(fours[1], fours[3])));
}
inline float reduce_max(F32x16 a) { return reduce_max8(_mm256_max_ps(a.lo, a.hi)); }
inline I32x16 to_int(F32x16 a) { return {_mm256_cvttps_epi32(a.lo), _mm256_cvttps_epi32(a.hi)}; }
inline I32x16 halve(I32x16 a) { return {_mm256_srai_epi32(a.lo, 1), _mm256_srai_epi32(a.hi, 1)}; }
inline I32x16 sub(I32x16 a, I32x16 b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
inline __m256 pow2_8(__m256i a) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(a, _mm256_set1_epi32(127)), 23)); }
inline F32x16 pow2(I32x16 a) { return {pow2_8(a.lo), pow2_8(a.hi)}; }
inline void store_i8(std::int8_t* p, I32x16 a) {
  const __m256i shorts = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(shorts), _mm256_extracti128_si256(shorts, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

}  // namespace
}  // namespace yamata::cpu
