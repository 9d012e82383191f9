#pragma once
// One lane per row, for AVX2; lanes_contract.hpp defines the functions.
#include "node/cpu/kernels/lanes_x86_256.hpp"

namespace yamata::cpu {
namespace {

template <bool kSigned>
constexpr int kFewColumns = kSigned ? 3 : 4;  // signed weights need two registers each
constexpr int kSignedZeroPoint = 0;
constexpr bool kSubCompensation = true;

/// Products are summed in 16 bits, two at a time, for as many steps as cannot overflow.
template <int kBits>
constexpr int kStepsToFlush = kBits <= 4   ? 8
                              : kBits == 5 ? 4
                                           : 1;

struct PartialSums {
  __m256i v;
};
struct SubFactor {
  __m256i v;
};
struct SignedBytes {
  __m256i w, magnitude;
};

inline SignedBytes signed_bytes(RowBytes a) { return {a.v, _mm256_abs_epi8(a.v)}; }
inline __m256i products(RowBytes w, const std::int8_t* x) { return _mm256_maddubs_epi16(w.v, spread_word(x)); }
inline __m256i products(SignedBytes w, const std::int8_t* x) {
  return _mm256_maddubs_epi16(w.magnitude, _mm256_sign_epi8(spread_word(x), w.w));
}
template <int kStep, class Weights>
inline PartialSums dot(Weights w, const std::int8_t* x) {
  return {products(w, x + 4 * kStep)};
}
template <int kStep, class Weights>
inline PartialSums dot(PartialSums sum, Weights w, const std::int8_t* x) {
  return {keep_order(_mm256_add_epi16(sum.v, products(w, x + 4 * kStep)))};
}
inline void begin_sub_block(PartialSums& sum, const std::int16_t* compensation) { sum.v = spread_word(compensation); }
inline RowInts flush(PartialSums p) { return {_mm256_madd_epi16(p.v, _mm256_set1_epi16(1))}; }

template <int kSub>
inline SubFactor sub_factor(RowPairs scales) {
  const __m256i lane = _mm256_set_epi64x(0x0d0c0d0c09080908, 0x0504050401000100, 0x0d0c0d0c09080908, 0x0504050401000100);
  return {_mm256_shuffle_epi8(scales.v, _mm256_add_epi8(lane, _mm256_set1_epi8(2 * kSub)))};
}
inline RowInts flush(PartialSums p, SubFactor scale) { return {_mm256_madd_epi16(p.v, scale.v)}; }

}  // namespace
}  // namespace yamata::cpu
