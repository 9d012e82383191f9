#pragma once
// The median of measurements.
#include <algorithm>
#include <vector>

namespace yamata {

/// The median; 0 if there are no values.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

}  // namespace yamata
