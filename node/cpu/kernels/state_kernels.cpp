#include "node/cpu/kernels/state_kernels.hpp"

namespace yamata::cpu {

const StateKernels& state_kernels(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
    case Isa::kAvxVnni:
      return state_table_avx2;
    case Isa::kAvx512:
      return state_table_avx512;
#elif defined(__aarch64__)
    case Isa::kNeon:
    case Isa::kNeonDotprod:
    case Isa::kNeonI8mm:
      return state_table_neon;
#endif
    default:
      return state_table_scalar;
  }
}

}  // namespace yamata::cpu
