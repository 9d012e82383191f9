#include "node/cpu/probe/probe_x86_256.hpp"

namespace yamata::cpu {
namespace {

/// Eight products of 32 bytes, summed in 16 bits before they are widened, as with 4-bit weights.
inline Sums multiply_add(Sums sum, Bytes& a, Bytes b) {
  __m256i pairs = _mm256_maddubs_epi16(a, b);
  for (int i = 1; i < 8; ++i) {
    YAMATA_HIDE(a);
    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(a, b));
  }
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

}  // namespace
}  // namespace yamata::cpu

#include "node/cpu/probe/probe_template.hpp"

namespace yamata::cpu {

constinit const ProbeTable probe_avx2{Isa::kAvx2, read, multiply_bytes, multiply_floats};

}  // namespace yamata::cpu
