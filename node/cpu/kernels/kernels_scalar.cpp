#include "node/cpu/kernels/vec_scalar.hpp"
// The types and functions that the templates use must be included before them.
#include "node/cpu/kernels/matmul_reference.hpp"
#include "node/cpu/kernels/table_template.hpp"
#include "node/cpu/kernels/tables.hpp"

namespace yamata::cpu {

constinit const KernelTable YAMATA_TABLE(scalar) = make_table(Isa::kScalar);

}  // namespace yamata::cpu
