#include "node/cpu/kernels/vec_avx512.hpp"
// The types and functions that the templates use must be included before them.
#include "node/cpu/kernels/lanes_avx512.hpp"
#include "node/cpu/kernels/matmul_template.hpp"
#include "node/cpu/kernels/table_template.hpp"
#include "node/cpu/kernels/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(avx512) = make_table(Isa::kAvx512);

}  // namespace yamata::cpu
