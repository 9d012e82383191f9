#define YAMATA_DOTPROD
#define YAMATA_I8MM
#include "node/cpu/vec_neon.hpp"
// What the templates are written in comes before them.
#include "node/cpu/lanes_neon.hpp"
#include "node/cpu/matmul_template.hpp"
#include "node/cpu/table_template.hpp"
#include "node/cpu/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(neon_i8mm) = make_table(Isa::kNeonI8mm);

}  // namespace yamata::cpu
