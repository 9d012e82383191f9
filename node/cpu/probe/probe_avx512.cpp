#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define YAMATA_HIDE(r) asm volatile("" : "+v"(r))

namespace yamata::cpu {
namespace {

constexpr int kMultiplyStreams = 12;

using Words = __m512i;
using Sums = __m512i;
using Bytes = __m512i;
using Floats = __m512;
constexpr std::size_t kWords = 8;

inline Words no_words() { return _mm512_setzero_si512(); }
inline Words load(const std::uint64_t* p) { return _mm512_loadu_si512(p); }
inline Words add(Words a, Words b) { return _mm512_add_epi64(a, b); }
inline std::uint64_t total_words(Words a) {
  std::uint64_t lanes[8], sum = 0;
  _mm512_storeu_si512(lanes, a);
  for (const std::uint64_t lane : lanes) sum += lane;
  return sum;
}

inline Sums no_sums() { return _mm512_setzero_si512(); }
inline Bytes byte_ones() { return _mm512_set1_epi8(1); }
inline Sums multiply_add(Sums sum, Bytes& a, Bytes b) {
  YAMATA_HIDE(a);
  return _mm512_dpbusd_epi32(sum, a, b);
}
inline std::uint64_t total_sums(Sums a) {
  std::uint32_t lanes[16];
  std::uint64_t sum = 0;
  _mm512_storeu_si512(lanes, a);
  for (const std::uint32_t lane : lanes) sum += lane;
  return sum;
}

inline Floats no_floats() { return _mm512_setzero_ps(); }
inline Floats float_ones() { return _mm512_set1_ps(1); }
inline Floats multiply_add(Floats sum, Floats a, Floats b) { return _mm512_fmadd_ps(a, b, sum); }
inline double total_floats(Floats a) {
  float lanes[16];
  double sum = 0;
  _mm512_storeu_ps(lanes, a);
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

}  // namespace
}  // namespace yamata::cpu

#include "node/cpu/probe/probe_template.hpp"

namespace yamata::cpu {

constinit const ProbeTable probe_avx512{Isa::kAvx512, read, multiply_bytes, multiply_floats};

}  // namespace yamata::cpu
