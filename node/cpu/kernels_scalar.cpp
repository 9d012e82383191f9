#include "node/cpu/vec_scalar.hpp"
// What the templates are written in comes before them.
#include "node/cpu/matmul_reference.hpp"
#include "node/cpu/table_template.hpp"
#include "node/cpu/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(scalar) = make_table(Isa::kScalar);

}  // namespace yamata::cpu
