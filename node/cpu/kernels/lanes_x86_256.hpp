#pragma once
// Eight rows in the lanes of 256-bit registers, without the sums of products; lanes_contract.hpp defines the functions.
#include <cstdint>

namespace yamata::cpu {
namespace {

constexpr int kRows = 8;
constexpr int kTileColumns = 8;
constexpr int kColumnsAtOnce = 1;
template <bool kBusy>
constexpr int kPrefetchBytes = kBusy ? 2048 : 1024;
constexpr int kPrefetchL2Bytes = 0;
template <int>
constexpr bool prefetches_to_l2() {
  return false;
}

struct RowFloats {
  __m256 v;
};
struct RowInts {
  __m256i v;
};
struct RowPairs {
  __m256i v;
};
struct RowBytes {
  __m256i v;
};

/// Keeps the compiler from reordering the additions, which would need more registers than there are, and from loading twice.
inline __m256i keep_order(__m256i v) {
  asm("" : "+x"(v));
  return v;
}
inline __m256i spread_word(const void* p) {
  std::int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return _mm256_set1_epi32(word);
}

inline RowFloats row_floats(float x) { return {_mm256_set1_ps(x)}; }
inline RowFloats load_rows(const float* p) { return {_mm256_loadu_ps(p)}; }
inline void store_rows(float* p, RowFloats a) { _mm256_storeu_ps(p, a.v); }
inline RowFloats add(RowFloats a, RowFloats b) { return {_mm256_add_ps(a.v, b.v)}; }
inline RowFloats mul(RowFloats a, RowFloats b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline RowFloats fma(RowFloats a, RowFloats b, RowFloats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline RowFloats from_halves(const std::uint16_t* p) { return {widen_halves(p)}; }
inline RowFloats from_bytes(const std::int8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
}
inline RowFloats from_ints(RowInts a) { return {_mm256_cvtepi32_ps(a.v)}; }
inline RowInts add(RowInts a, RowInts b) { return {keep_order(_mm256_add_epi32(a.v, b.v))}; }
inline RowInts sub(RowInts a, RowInts b) { return {_mm256_sub_epi32(a.v, b.v)}; }
template <int kShift>
inline RowInts row_ints(const std::int32_t* p) {
  return {kShift == 0 ? spread_word(p) : _mm256_slli_epi32(spread_word(p), kShift)};
}

inline RowPairs row_pairs(int x) { return {_mm256_set1_epi16(static_cast<short>(x))}; }
inline RowPairs load_pairs(const std::int8_t* p) { return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
inline RowPairs mul(RowPairs a, RowPairs b) { return {_mm256_mullo_epi16(a.v, b.v)}; }
inline RowInts dot_pairs(RowPairs a, const std::int16_t* x) { return {_mm256_madd_epi16(a.v, spread_word(x))}; }

inline RowBytes load_row_bytes(const std::uint8_t* p) { return {keep_order(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
/// kBits bits from bit kShift on, moved to bit kTo.
template <int kShift, int kBits, int kTo = 0>
inline RowBytes field(RowBytes a) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(((1 << kBits) - 1) << kTo));
  if constexpr (kTo > kShift)
    return {_mm256_and_si256(_mm256_slli_epi16(a.v, kTo - kShift), mask)};
  else
    return {_mm256_and_si256(_mm256_srli_epi16(a.v, kShift - kTo), mask)};
}
template <int kShift, int kBits, int kTo>
inline RowBytes join_high(RowBytes low, RowBytes high) {
  return {_mm256_or_si256(low.v, field<kShift, kBits, kTo>(high).v)};
}
inline RowBytes look_up(RowBytes index, const std::int8_t* table) {
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), index.v)};
}

}  // namespace
}  // namespace yamata::cpu
