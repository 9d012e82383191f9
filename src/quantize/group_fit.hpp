#pragma once
// The searches of fit.hpp for all groups of a block: a table of functions per instruction set, with the same results, bit for bit, as
// fit.hpp. Included by files with their own compiler flags: it must not contain shared code.
#include <cstddef>
#include <cstdint>

#include "node/cpu/kernels/kernels.hpp"
#include "src/quantize/offset.hpp"

namespace yamata::quantize {

/// The elements of `count` groups of `size`, group by group.
struct GroupedElements {
  const float* x;
  const float* weights;  ///< one per element; null: x*x (symmetric only)
  std::size_t size;      ///< 16 or 32
  std::size_t count;     ///< a multiple of 8
};

/// Each function writes a number per element, and a fit per group.
struct GroupFit {
  void (*symmetric)(const GroupedElements& groups, int levels, std::uint8_t* numbers, float* scales);
  void (*refine)(const GroupedElements& groups, int levels, std::uint8_t* numbers, float* scales);  ///< weights are x*x
  void (*offset)(const GroupedElements& groups, int most, const Trials& trials, std::uint8_t* numbers, Offset* fits);
};

extern const GroupFit group_fit_scalar;  ///< fit.hpp, group by group: the reference that the others must equal
extern const GroupFit group_fit_avx2, group_fit_neon;

/// The functions for `isa`, which this machine must support.
const GroupFit& group_fit(cpu::Isa isa);

}  // namespace yamata::quantize
