#pragma once
// 256-bit registers for probe_template.hpp, without the products of bytes.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define YAMATA_HIDE(r) asm volatile("" : "+x"(r))

namespace yamata::cpu {
namespace {

constexpr int kMultiplyStreams = 10;

using Words = __m256i;
using Sums = __m256i;
using Bytes = __m256i;
using Floats = __m256;
constexpr std::size_t kWords = 4;

inline Words no_words() { return _mm256_setzero_si256(); }
inline Words load(const std::uint64_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline Words add(Words a, Words b) { return _mm256_add_epi64(a, b); }
inline std::uint64_t total_words(Words a) {
  std::uint64_t lanes[4], sum = 0;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), a);
  for (const std::uint64_t lane : lanes) sum += lane;
  return sum;
}

inline Sums no_sums() { return _mm256_setzero_si256(); }
inline Bytes byte_ones() { return _mm256_set1_epi8(1); }
inline std::uint64_t total_sums(Sums a) {
  std::uint32_t lanes[8];
  std::uint64_t sum = 0;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), a);
  for (const std::uint32_t lane : lanes) sum += lane;
  return sum;
}

inline Floats no_floats() { return _mm256_setzero_ps(); }
inline Floats float_ones() { return _mm256_set1_ps(1); }
inline Floats multiply_add(Floats sum, Floats a, Floats b) { return _mm256_fmadd_ps(a, b, sum); }
inline double total_floats(Floats a) {
  float lanes[8];
  double sum = 0;
  _mm256_storeu_ps(lanes, a);
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

}  // namespace
}  // namespace yamata::cpu
