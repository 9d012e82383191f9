#include "node/cpu/probe/probe_x86_256.hpp"

namespace yamata::cpu {
namespace {

inline Sums multiply_add(Sums sum, Bytes& a, Bytes b) {
  YAMATA_HIDE(a);
  return _mm256_dpbusd_avx_epi32(sum, a, b);
}

}  // namespace
}  // namespace yamata::cpu

#include "node/cpu/probe/probe_template.hpp"

namespace yamata::cpu {

constinit const ProbeTable probe_avx_vnni{Isa::kAvxVnni, read, multiply_bytes, multiply_floats};

}  // namespace yamata::cpu
