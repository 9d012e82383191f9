#pragma once
// The tables of the instruction sets, each defined in a file of its own. YAMATA_SIMDE builds of those files (emulated intrinsics, for
// tests) define them under another name, so that both can be linked.
#include "node/cpu/kernels/kernels.hpp"

namespace yamata::cpu {

#ifdef YAMATA_SIMDE
#define YAMATA_TABLE(isa) simde_table_##isa
#else
#define YAMATA_TABLE(isa) table_##isa
#endif

extern const KernelTable YAMATA_TABLE(scalar), YAMATA_TABLE(avx2), YAMATA_TABLE(avx_vnni), YAMATA_TABLE(avx512), YAMATA_TABLE(neon),
    YAMATA_TABLE(neon_dotprod), YAMATA_TABLE(neon_i8mm);

/// Throws UsageError: this program has no kernels for the instruction set.
[[noreturn]] void refuse_absent(Isa isa);

}  // namespace yamata::cpu
