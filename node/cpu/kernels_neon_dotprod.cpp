#define YAMATA_DOTPROD
#include "node/cpu/vec_neon.hpp"
// What the templates are written in comes before them.
#include "node/cpu/lanes_neon.hpp"
#include "node/cpu/matmul_template.hpp"
#include "node/cpu/table_template.hpp"
#include "node/cpu/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(neon_dotprod) = make_table(Isa::kNeonDotprod);

}  // namespace yamata::cpu
