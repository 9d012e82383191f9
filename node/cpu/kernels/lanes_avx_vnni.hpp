#pragma once
// One lane per row, for AVX2 with the 256-bit VNNI instructions; lanes_contract.hpp defines the functions.
#include "node/cpu/kernels/lanes_x86_256.hpp"

namespace yamata::cpu {
namespace {

template <bool kSigned>
constexpr int kFewColumns = 4;
constexpr bool kSubCompensation = false;
constexpr int kSignedZeroPoint = 128;
template <int kBits>
constexpr int kStepsToFlush = 8;

using PartialSums = RowInts;
using SubFactor = RowInts;

inline __m256i dot_product(__m256i sum, __m256i w, __m256i x) { return _mm256_dpbusd_avx_epi32(sum, w, x); }
/// The instruction multiplies unsigned bytes by signed ones.
inline RowBytes signed_bytes(RowBytes a) { return {_mm256_xor_si256(a.v, _mm256_set1_epi8(-128))}; }
template <int kStep>
inline PartialSums dot(PartialSums sum, RowBytes w, const std::int8_t* x) {
  return {dot_product(sum.v, w.v, spread_word(x + 4 * kStep))};
}
template <int kStep>
inline PartialSums dot(RowBytes w, const std::int8_t* x) {
  return dot<kStep>({_mm256_setzero_si256()}, w, x);
}
inline RowInts flush(PartialSums p) { return p; }

template <int kSub>
inline SubFactor sub_factor(RowPairs scales) {
  return {_mm256_srai_epi32(kSub == 0 ? _mm256_slli_epi32(scales.v, 16) : scales.v, 16)};
}
inline RowInts flush(PartialSums p, SubFactor scale) { return {_mm256_mullo_epi32(p.v, scale.v)}; }

}  // namespace
}  // namespace yamata::cpu
