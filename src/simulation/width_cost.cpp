#include "src/simulation/width_cost.hpp"

#include <algorithm>

namespace yamata::simulation {
namespace {

/// Time of a run of one row: measured, or extrapolated from the first two widths, but at least half of the first.
double one_row(std::span<const WidthTime> measured) {
  const WidthTime& first = measured[0];
  if (first.rows == 1 || measured.size() == 1) return first.time;
  const double slope = (measured[1].time - first.time) / static_cast<double>(measured[1].rows - first.rows);
  return std::clamp(first.time - slope * static_cast<double>(first.rows - 1), first.time / 2, first.time);
}

}  // namespace

WidthCost::WidthCost(std::vector<double> numbers) {
  if (numbers.size() <= 1) {
    multiples_ = {1};
    further_ = numbers.empty() ? 0 : numbers[0];
    return;
  }
  for (const double n : numbers) multiples_.push_back(n / numbers[0]);
  further_ = std::max(0.0, multiples_.back() - multiples_[multiples_.size() - 2]);
}

double WidthCost::operator()(std::size_t rows) const {
  if (rows == 0) return 0;
  if (rows <= multiples_.size()) return multiples_[rows - 1];
  return multiples_.back() + further_ * static_cast<double>(rows - multiples_.size());
}

std::vector<double> times_by_width(std::span<const WidthTime> measured) {
  if (measured.empty()) return {};
  std::vector<double> times{one_row(measured)};
  for (const WidthTime& point : measured) {
    const double from = times.back(), to = std::clamp(point.time, from, std::max(from, times[0] * static_cast<double>(point.rows)));
    const std::size_t known = times.size();
    for (std::size_t rows = known + 1; rows <= point.rows; ++rows)
      times.push_back(from + (to - from) * static_cast<double>(rows - known) / static_cast<double>(point.rows - known));
  }
  return times;
}

}  // namespace yamata::simulation
