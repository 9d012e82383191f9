#pragma once
// The searches for scales that the block formats share. Each fixes its order of operations, which is that of the formats'
// reference implementation: the bytes of a file depend on every rounding.
#include <cstdint>
#include <span>

namespace yamata::quantize {

/// The nearest whole number, ties to even. What lies beyond 2^22 gives a number of no meaning, on every machine the same.
int nearest(float x);
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

/// Which scales fit_offset tries: (first + step * i + most) / range for i of [0, steps].
struct Trials {
  float first, step;
  int steps;
  bool absolute;  ///< the error is |difference|, else its square
};
struct Offset {
  float scale, minimum;  ///< minimum is subtracted, 0 or more
};
/// Numbers l in [0, most] with x ~ scale * l - minimum, weighted; at most 32 elements.
Offset fit_offset(std::span<const float> x, int most, const float* weights, const Trials& trials, std::uint8_t* numbers);

/// Numbers l in [0, most] with x ~ scale * l for x that are mostly 0 or more; weighted squares.
float fit_positive(std::span<const float> x, int most, const float* weights, std::uint8_t* numbers);

}  // namespace yamata::quantize
