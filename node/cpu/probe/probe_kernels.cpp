#include "node/cpu/probe/probe_kernels.hpp"

#include "node/cpu/kernels/tables.hpp"

namespace yamata::cpu {

const ProbeTable& probe_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx2) return probe_avx2;
  if (isa == Isa::kAvxVnni) return probe_avx_vnni;
  if (isa == Isa::kAvx512) return probe_avx512;
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return probe_neon;
  if (isa == Isa::kNeonDotprod) return probe_neon_dotprod;
  if (isa == Isa::kNeonI8mm) return probe_neon_i8mm;
#endif
  if (isa == Isa::kScalar) return probe_scalar;
  refuse_absent(isa);
}

}  // namespace yamata::cpu
