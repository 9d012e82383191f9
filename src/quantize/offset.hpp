#pragma once
// The result of fit_offset (fit.hpp), and what it tries. Included by files with their own compiler flags: it must not contain shared code.

namespace yamata::quantize {

/// The scales that fit_offset tries: (first + step * i + most) / range for i in [0, steps].
struct Trials {
  float first, step;
  int steps;
  bool absolute;  ///< the error is |difference|; false: its square
};
struct Offset {
  float scale, minimum;  ///< minimum: subtracted, not negative
};

}  // namespace yamata::quantize
