#include "src/speculation/step_cost.hpp"

#include <algorithm>

namespace yamata {
namespace {

constexpr double kForget = 0.97;     // weight that a run keeps with each later one
constexpr int kWidest = 16;          // wider runs are prompts, whose rows cost otherwise
constexpr double kPriorShare = 0.1;  // of a one-row run per further row, before it is known
constexpr double kPriorSpread = 8;   // of rows, that the prior counts for

}  // namespace

void StepCost::ran(int rows, double seconds) {
  if (rows < 1 || rows > kWidest) return;
  const auto x = static_cast<double>(rows);
  weight_ = kForget * weight_ + 1;
  rows_ = kForget * rows_ + x;
  seconds_ = kForget * seconds_ + seconds;
  rows_squared_ = kForget * rows_squared_ + x * x;
  product_ = kForget * product_ + x * seconds;
}

/// Seconds per further row: least squares, drawn towards the prior while all runs have been of one width.
double StepCost::slope() const {
  const double mean_rows = rows_ / weight_, mean_seconds = seconds_ / weight_;
  const double spread = rows_squared_ - rows_ * mean_rows, common = product_ - rows_ * mean_seconds;
  const double prior = kPriorShare * mean_seconds / (1 + kPriorShare * (mean_rows - 1));
  return std::max(0.0, (common + kPriorSpread * prior) / (spread + kPriorSpread));
}

double StepCost::one_row_s() const {
  if (weight_ <= 0) return 0;
  const double mean = seconds_ / weight_;
  return std::max(0.1 * mean, mean - slope() * (rows_ / weight_ - 1));
}

double StepCost::further_row() const { return weight_ > 0 && seconds_ > 0 ? slope() / one_row_s() : kPriorShare; }

}  // namespace yamata
