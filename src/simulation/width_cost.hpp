#pragma once
// What runs of more than one row take.
#include <cstddef>
#include <span>
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

/// A width that was measured, and what a run of it took, in any unit.
struct WidthTime {
  std::size_t rows = 1;
  double time = 0;
};

/// What runs of 1, 2, ... rows take, up to the widest of `measured`, whose widths ascend; between them, along a line. A wider run takes no
/// less, and no more than its rows one by one: a width that was computed once, with cold caches, says no such thing. Empty: of no width.
std::vector<double> times_by_width(std::span<const WidthTime> measured);

}  // namespace yamata::simulation
