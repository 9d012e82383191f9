#include "node/cpu/vec_avx512.hpp"
// The vector layer comes first: the templates are written in its terms.
#include "node/cpu/table_template.hpp"
#include "node/cpu/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(avx512) = make_table(Isa::kAvx512);

}  // namespace yamata::cpu
