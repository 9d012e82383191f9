#pragma once
// The time of runs with more than one row.
#include <cstddef>
#include <span>
#include <vector>

namespace yamata::simulation {

/// Times as multiples of a one-row run.
class WidthCost {
 public:
  /// One number: the share of a one-row run that every additional row costs. Several: the multiples for 1, 2, 3, ... rows; beyond these,
  /// the last difference is repeated.
  explicit WidthCost(std::vector<double> numbers = {0.05});
  double operator()(std::size_t rows) const;

 private:
  std::vector<double> multiples_;  // for 1, 2, ... rows
  double further_;
};

/// A measured width, and the time of its run in any unit.
struct WidthTime {
  std::size_t rows = 1;
  double time = 0;
};

/// The times of runs of 1, 2, ... rows up to the widest of `measured`, whose widths ascend; other widths are interpolated linearly. A wider
/// run takes at least as long as a narrower one, and at most as long as its rows one by one; this corrects widths that were measured only
/// once, with cold caches. Empty if nothing was measured.
std::vector<double> times_by_width(std::span<const WidthTime> measured);

}  // namespace yamata::simulation
