#include "node/cpu/kernels/vec_neon.hpp"
// The types and functions that the template uses must be included before it.
#include "node/cpu/kernels/state_template.hpp"

namespace yamata::cpu {

constinit const StateKernels YAMATA_STATE_TABLE(neon){convolve, delta_rule, scan};

}  // namespace yamata::cpu
