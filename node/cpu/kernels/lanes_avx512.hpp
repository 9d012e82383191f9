#pragma once
// One lane per row, for AVX-512 with VNNI; lanes_contract.hpp defines the functions.
#include <cstdint>

#include "node/cpu/kernels/kernels.hpp"

namespace yamata::cpu {
namespace {

constexpr int kRows = 16;
constexpr int kTileColumns = 8;
template <bool kSigned>
constexpr int kFewColumns = 0;
constexpr int kColumnsAtOnce = 1;
template <bool>
constexpr int kPrefetchBytes = 4096;
constexpr int kPrefetchL2Bytes = 16384;
/// AMD's cores fetch a single stream early enough by themselves; with one or two tokens, more prefetches only cost time.
template <int kColumns>
bool prefetches_to_l2() {
  return kColumns > 2 || !kIsAmd;
}
constexpr bool kSubCompensation = false;
constexpr int kSignedZeroPoint = 128;
template <int kBits>
constexpr int kStepsToFlush = 8;

struct RowFloats {
  __m512 v;
};
struct RowInts {
  __m512i v;
};
struct RowPairs {
  __m512i v;
};
struct RowBytes {
  __m512i v;
};
using PartialSums = RowInts;
using SubFactor = RowInts;

inline __m512i spread_word(const void* p) {
  std::int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return _mm512_set1_epi32(word);
}

inline RowFloats row_floats(float x) { return {_mm512_set1_ps(x)}; }
inline RowFloats load_rows(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store_rows(float* p, RowFloats a) { _mm512_storeu_ps(p, a.v); }
inline RowFloats add(RowFloats a, RowFloats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline RowFloats mul(RowFloats a, RowFloats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline RowFloats fma(RowFloats a, RowFloats b, RowFloats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline RowFloats from_halves(const std::uint16_t* p) { return {load_f16(p).v}; }
inline RowFloats from_bytes(const std::int8_t* p) { return {load_i8(p).v}; }
inline RowFloats from_ints(RowInts a) { return {from_int(I32x16{a.v}).v}; }
inline RowInts add(RowInts a, RowInts b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline RowInts sub(RowInts a, RowInts b) { return {_mm512_sub_epi32(a.v, b.v)}; }
template <int kShift>
inline RowInts row_ints(const std::int32_t* p) {
  return {kShift == 0 ? spread_word(p) : _mm512_slli_epi32(spread_word(p), kShift)};
}

inline RowPairs row_pairs(int x) { return {_mm512_set1_epi16(static_cast<short>(x))}; }
inline RowPairs load_pairs(const std::int8_t* p) { return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
inline RowPairs mul(RowPairs a, RowPairs b) { return {_mm512_mullo_epi16(a.v, b.v)}; }
#ifdef YAMATA_SIMDE  // SIMDe lacks these in 512 bits
inline RowInts dot_pairs(RowPairs a, const std::int16_t* x) {
  const __m256i both = low_half(spread_word(x));
  return {join_ints(_mm256_madd_epi16(low_half(a.v), both), _mm256_madd_epi16(high_half(a.v), both))};
}
inline __m512i high_words(__m512i a) { return join_ints(_mm256_srai_epi32(low_half(a), 16), _mm256_srai_epi32(high_half(a), 16)); }
inline __m512i multiply(__m512i a, __m512i b) {
  return join_ints(_mm256_mullo_epi32(low_half(a), low_half(b)), _mm256_mullo_epi32(high_half(a), high_half(b)));
}
#else
inline RowInts dot_pairs(RowPairs a, const std::int16_t* x) { return {_mm512_madd_epi16(a.v, spread_word(x))}; }
inline __m512i high_words(__m512i a) { return _mm512_srai_epi32(a, 16); }
inline __m512i multiply(__m512i a, __m512i b) { return _mm512_mullo_epi32(a, b); }
#endif

inline RowBytes load_row_bytes(const std::uint8_t* p) { return {_mm512_loadu_si512(p)}; }
/// kBits bits from bit kShift on, moved to bit kTo.
template <int kShift, int kBits, int kTo = 0>
inline RowBytes field(RowBytes a) {
  const __m512i mask = _mm512_set1_epi8(static_cast<char>(((1 << kBits) - 1) << kTo));
  if constexpr (kTo > kShift)
    return {_mm512_and_si512(_mm512_slli_epi16(a.v, kTo - kShift), mask)};
  else
    return {_mm512_and_si512(_mm512_srli_epi16(a.v, kShift - kTo), mask)};
}
template <int kShift, int kBits, int kTo>
inline RowBytes join_high(RowBytes low, RowBytes high) {
  const __m512i more = field<kShift, kBits, kTo>(high).v;
  return {_mm512_or_si512(low.v, more)};
}
inline RowBytes look_up(RowBytes index, const std::int8_t* table) {
  const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm512_shuffle_epi8(join_ints(values, values), index.v)};
}
/// The instruction multiplies unsigned bytes by signed ones.
inline RowBytes signed_bytes(RowBytes a) { return {_mm512_xor_si512(a.v, _mm512_set1_epi8(-128))}; }

template <int kStep>
inline PartialSums dot(PartialSums sum, RowBytes w, const std::int8_t* x) {
  return {_mm512_dpbusd_epi32(sum.v, w.v, spread_word(x + 4 * kStep))};
}
template <int kStep>
inline PartialSums dot(RowBytes w, const std::int8_t* x) {
  return dot<kStep>({_mm512_setzero_si512()}, w, x);
}
inline RowInts flush(PartialSums p) { return p; }

template <int kSub>
inline SubFactor sub_factor(RowPairs scales) {
  return {high_words(kSub == 0 ? _mm512_slli_epi32(scales.v, 16) : scales.v)};
}
inline RowInts flush(PartialSums p, SubFactor scale) { return {multiply(p.v, scale.v)}; }

}  // namespace
}  // namespace yamata::cpu
