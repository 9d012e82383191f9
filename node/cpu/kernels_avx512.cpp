#include "node/cpu/vec_avx512.hpp"
// What the templates are written in comes before them.
#include "node/cpu/lanes_avx512.hpp"
#include "node/cpu/matmul_template.hpp"
#include "node/cpu/table_template.hpp"
#include "node/cpu/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(avx512) = make_table(Isa::kAvx512);

}  // namespace yamata::cpu
