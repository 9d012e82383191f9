#include "node/cpu/vec_avx2.hpp"
// The vector layer comes first: the templates are written in its terms.
#include "node/cpu/table_template.hpp"
#include "node/cpu/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(avx2) = make_table(Isa::kAvx2);

}  // namespace yamata::cpu
