#include "node/cpu/probe/probe_neon_registers.hpp"

namespace yamata::cpu {
namespace {

inline Sums multiply_add(Sums sum, Bytes& a, Bytes b) {
  YAMATA_HIDE(a);
  return vmmlaq_s32(sum, a, b);
}

}  // namespace
}  // namespace yamata::cpu

#include "node/cpu/probe/probe_template.hpp"

namespace yamata::cpu {

constinit const ProbeTable probe_neon_i8mm{Isa::kNeonI8mm, read, multiply_bytes, multiply_floats};

}  // namespace yamata::cpu
