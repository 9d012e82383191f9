#pragma once
// What runs of more than one row take.
#include <cstddef>
#include <vector>

namespace yamata::simulation {

/// As multiples of a run of one row.
class WidthCost {
 public:
  /// One number: the share of a one-row run that every further row adds. Several: the multiples for 1, 2, 3, ... rows; beyond
  /// them the last step goes on.
  explicit WidthCost(std::vector<double> numbers = {0.05});
  double operator()(std::size_t rows) const;

 private:
  std::vector<double> multiples_;  // for 1, 2, ... rows
  double further_;
};

}  // namespace yamata::simulation
