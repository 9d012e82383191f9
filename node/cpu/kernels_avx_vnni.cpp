#include "node/cpu/vec_avx2.hpp"
// What the templates are written in comes before them.
#include "node/cpu/lanes_avx_vnni.hpp"
#include "node/cpu/matmul_template.hpp"
#include "node/cpu/table_template.hpp"
#include "node/cpu/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(avx_vnni) = make_table(Isa::kAvxVnni);

}  // namespace yamata::cpu
