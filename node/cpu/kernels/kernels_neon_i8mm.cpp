#define YAMATA_DOTPROD
#define YAMATA_I8MM
#include "node/cpu/kernels/vec_neon.hpp"
// The types and functions that the templates use must be included before them.
#include "node/cpu/kernels/lanes_neon.hpp"
#include "node/cpu/kernels/matmul_template.hpp"
#include "node/cpu/kernels/table_template.hpp"
#include "node/cpu/kernels/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(neon_i8mm) = make_table(Isa::kNeonI8mm);

}  // namespace yamata::cpu
