#pragma once
// The searches for scales that the block formats share. Each has the order of operations of the formats' reference implementation, because
// every rounding changes the bytes of the file.
#include <bit>
#include <cstdint>
#include <span>

#include "src/quantize/offset.hpp"

namespace yamata::quantize {

/// The nearest integer, ties to even. Beyond 2^22 the result is meaningless, but the same on every machine.
inline int nearest(float x) {
  const float shifted = x + 12582912.0f;  // 1.5 * 2^23: the integer is in the low bits
  return static_cast<int>(std::bit_cast<std::uint32_t>(shifted) & 0x007fffffu) - 0x00400000;
}
/// The low byte of a float truncated to an integer; 0 if it does not fit into 32 bits.
std::uint8_t truncated_byte(float x);

/// The element of largest magnitude (the first one if there are several), and its magnitude.
struct Peak {
  float value = 0, magnitude = 0;
};
Peak peak_of(std::span<const float> x);

/// Finds integers l in [-levels, levels) and a scale with x ~ scale * l, by least squares weighted with `weights` (null: with x*x), over 19
/// scales around levels/peak. Writes l + levels to `numbers`. Returns the scale; 0 if all x are 0 (then all numbers are 0).
float fit_symmetric(std::span<const float> x, int levels, const float* weights, std::uint8_t* numbers);
/// The same with weights x*x, starting from one scale and changing single numbers while that reduces the error.
float refine_symmetric(std::span<const float> x, int levels, std::uint8_t* numbers);

/// Finds numbers l in [0, most] with x ~ scale * l - minimum, weighted; at most 32 elements.
Offset fit_offset(std::span<const float> x, int most, const float* weights, const Trials& trials, std::uint8_t* numbers);

/// Finds numbers l in [0, most] with x ~ scale * l, for x that are mostly non-negative; weighted squares.
float fit_positive(std::span<const float> x, int most, const float* weights, std::uint8_t* numbers);

}  // namespace yamata::quantize
