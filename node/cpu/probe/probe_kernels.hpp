#pragma once
// Loops that do nothing but what a processor can do fastest: one table per instruction set, as kernels.hpp has them.
#include <cstddef>
#include <cstdint>

#include "node/cpu/kernels/kernels.hpp"

namespace yamata::cpu {

struct ProbeTable {
  Isa isa;
  /// Sum of the words, which wraps: reads memory with the widest loads. `count` is a multiple of kProbeWords.
  std::uint64_t (*read)(const std::uint64_t* words, std::size_t count);
  /// Multiply-adds of bytes from registers, in the way that costs least of those the matrix products use. Every product is one, and
  /// what is returned is their sum: how many there were. At most kProbeRounds rounds.
  std::uint64_t (*multiply_bytes)(std::uint32_t rounds);
  /// Likewise, of floats.
  std::uint64_t (*multiply_floats)(std::uint32_t rounds);
};
inline constexpr std::size_t kProbeWords = 128;
inline constexpr std::uint32_t kProbeRounds = 1u << 20;  ///< floats count to 2^24

extern const ProbeTable probe_scalar, probe_avx2, probe_avx_vnni, probe_avx512, probe_neon, probe_neon_dotprod, probe_neon_i8mm;

/// Throws UsageError where this program has none of that instruction set.
const ProbeTable& probe_kernels(Isa isa);

}  // namespace yamata::cpu
