#include "node/cpu/probe/probe_neon_registers.hpp"

namespace yamata::cpu {
namespace {

/// Products of 16 bytes without the dot product instructions, as in the kernels.
inline Sums multiply_add(Sums sum, Bytes& a, Bytes b) {
  YAMATA_HIDE(a);
  return vpadalq_s16(sum, vpaddq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b)));
}

}  // namespace
}  // namespace yamata::cpu

#include "node/cpu/probe/probe_template.hpp"

namespace yamata::cpu {

constinit const ProbeTable probe_neon{Isa::kNeon, read, multiply_bytes, multiply_floats};

}  // namespace yamata::cpu
