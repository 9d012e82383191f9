#include "node/cpu/vec_neon.hpp"
// The vector layer comes first: the templates are written in its terms.
#include "node/cpu/table_template.hpp"
#include "node/cpu/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(neon) = make_table(Isa::kNeon);

}  // namespace yamata::cpu
