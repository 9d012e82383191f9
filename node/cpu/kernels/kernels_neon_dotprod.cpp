#define YAMATA_DOTPROD
#include "node/cpu/kernels/vec_neon.hpp"
// The types and functions that the templates use must be included before them.
#include "node/cpu/kernels/lanes_neon.hpp"
#include "node/cpu/kernels/matmul_template.hpp"
#include "node/cpu/kernels/table_template.hpp"
#include "node/cpu/kernels/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(neon_dotprod) = make_table(Isa::kNeonDotprod);

}  // namespace yamata::cpu
