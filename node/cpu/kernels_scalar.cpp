#include "node/cpu/vec_scalar.hpp"
// The vector layer comes first: the templates are written in its terms.
#include "node/cpu/table_template.hpp"
#include "node/cpu/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(scalar) = make_table(Isa::kScalar);

}  // namespace yamata::cpu
