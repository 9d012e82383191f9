#include "src/simulation/width_cost.hpp"

#include <algorithm>

namespace yamata::simulation {

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

}  // namespace yamata::simulation
