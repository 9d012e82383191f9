#pragma once
// The searches for scales that the block formats share. Each fixes its order of operations, which is that of the formats'
// reference implementation: the bytes of a file depend on every rounding.
#include <bit>
#include <cstdint>
#include <span>

#include "src/quantize/group_fit.hpp"

namespace yamata::quantize {

/// The nearest whole number, ties to even. What lies beyond 2^22 gives a number of no meaning, on every machine the same.
inline int nearest(float x) {
  const float shifted = x + 12582912.0f;  // 1.5 * 2^23: the whole number is in the low bits
  return static_cast<int>(std::bit_cast<std::uint32_t>(shifted) & 0x007fffffu) - 0x00400000;
}
/// The low byte of a float cut to a whole number; 0 for what no 32-bit number holds.
std::uint8_t truncated_byte(float x);

/// The element of largest magnitude, the first of several; `magnitude` of it.
struct Peak {
  float value = 0, magnitude = 0;
};
Peak peak_of(std::span<const float> x);

/// Whole numbers l in [-levels, levels) and a scale with x ~ scale * l, by least squares weighted with `weights` (null: with x*x),
/// over 19 scales around levels/peak. l + levels goes to `numbers`. Returns the scale; 0 where all x are 0 (numbers are 0 then).
float fit_symmetric(std::span<const float> x, int levels, const float* weights, std::uint8_t* numbers);
/// The same for weights x*x, from one scale, moving single numbers while that helps.
float refine_symmetric(std::span<const float> x, int levels, std::uint8_t* numbers);

/// Numbers l in [0, most] with x ~ scale * l - minimum, weighted; at most 32 elements.
Offset fit_offset(std::span<const float> x, int most, const float* weights, const Trials& trials, std::uint8_t* numbers);

/// Numbers l in [0, most] with x ~ scale * l for x that are mostly 0 or more; weighted squares.
float fit_positive(std::span<const float> x, int most, const float* weights, std::uint8_t* numbers);

}  // namespace yamata::quantize
