#pragma once
// Loops that measure a processor's peak rates: one table per instruction set, as in kernels.hpp.
#include <cstddef>
#include <cstdint>

#include "node/cpu/kernels/kernels.hpp"

namespace yamata::cpu {

struct ProbeTable {
  Isa isa;
  /// Sum of the words, which wraps: reads memory with the widest loads. `count` is a multiple of kProbeWords.
  std::uint64_t (*read)(const std::uint64_t* words, std::size_t count);
  /// Multiply-adds of bytes in registers, with the fastest method of the matrix products. Every product is 1; returns the sum, which is the
  /// number of products. At most kProbeRounds rounds.
  std::uint64_t (*multiply_bytes)(std::uint32_t rounds);
  /// The same for floats.
  std::uint64_t (*multiply_floats)(std::uint32_t rounds);
};
inline constexpr std::size_t kProbeWords = 128;
inline constexpr std::uint32_t kProbeRounds = 1u << 20;  ///< floats count to 2^24

extern const ProbeTable probe_scalar, probe_avx2, probe_avx_vnni, probe_avx512, probe_neon, probe_neon_dotprod, probe_neon_i8mm;

/// Throws UsageError if this program has no table for the instruction set.
const ProbeTable& probe_kernels(Isa isa);

}  // namespace yamata::cpu
