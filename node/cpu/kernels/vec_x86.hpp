#pragma once
// The part of the vector layer that AVX2 and AVX-512 share: 8 floats in one AVX2 register.
#include <cstdint>

namespace yamata::cpu {
namespace {

inline __m128 fold_eight(__m256 a) { return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)); }
/// Reduces the 8 sums l[j]+l[j+8] in the order of kernels.hpp.
inline float reduce_add8(__m256 a) {
  const __m128 four = fold_eight(a);
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float reduce_max8(__m256 a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline void sum_bytes(const std::int8_t* p, std::int16_t* sums) {
  const __m128i ones = _mm_set1_epi8(1);
  const __m128i low = _mm_maddubs_epi16(ones, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m128i high = _mm_maddubs_epi16(ones, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)));
  const __m128i fours = _mm_add_epi16(_mm_unpacklo_epi64(low, high), _mm_unpackhi_epi64(low, high));
  const __m128i eights = _mm_add_epi16(fours, _mm_srli_epi64(fours, 32));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(sums), _mm_shuffle_epi32(eights, 0x08));
}
inline __m256 widen_halves(const std::uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline void narrow_halves(std::uint16_t* p, __m256 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
inline __m256 widen_bf16(const std::uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline float widen_half(std::uint16_t half) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half))); }

}  // namespace
}  // namespace yamata::cpu
