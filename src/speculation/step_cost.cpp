#include "src/speculation/step_cost.hpp"

#include <algorithm>

namespace yamata {
namespace {

constexpr double kForget = 0.9;       // weight that a run keeps with each later one of its width
constexpr double kCold = 0.02;        // weight that the first runs keep
constexpr double kPriorPerRow = 0.1;  // of a one-row run, where nothing is known of a width: low enough to be tried

}  // namespace

double StepCost::prior(int rows) { return 1 + kPriorPerRow * (rows - 1); }

void StepCost::ran(int rows, double seconds) {
  if (rows < 1 || rows > kWidest) return;
  if (++runs_ == kWarmUp + 1) {
    for (Mean& mean : of_width_) mean.weight *= kCold, mean.seconds *= kCold;
  }
  Mean& mean = of_width_[static_cast<std::size_t>(rows)];
  mean.weight = kForget * mean.weight + 1;
  mean.seconds = kForget * mean.seconds + seconds;
}

/// Between the next widths known below and above in proportion; where there is only one of them, grown from that as if nothing were known.
double StepCost::guess(int rows) const {
  const auto known = [&](int width) { return of_width_[static_cast<std::size_t>(width)].weight > 0; };
  const auto of = [&](int width) { return of_width_[static_cast<std::size_t>(width)].value(); };
  int below = rows, above = rows;
  while (below > 0 && !known(below)) --below;
  while (above <= kWidest && !known(above)) ++above;
  if (below == 0 && above > kWidest) return 0;
  if (below == 0) return of(above) * prior(rows) / prior(above);
  if (above > kWidest) return of(below) * prior(rows) / prior(below);
  const double share = above == below ? 0 : static_cast<double>(rows - below) / (above - below);
  return of(below) + share * (std::max(of(below), of(above)) - of(below));
}

std::vector<double> StepCost::measured_s() const {
  std::vector<double> seconds;
  for (std::size_t rows = 1; rows <= kWidest; ++rows) seconds.push_back(of_width_[rows].weight > 0 ? of_width_[rows].value() : 0);
  return seconds;
}

std::vector<double> StepCost::marginal(int rows, int most) const {
  const double one = run_s(1);
  std::vector<double> marginal;
  for (int k = 0; k <= most; ++k) marginal.push_back(k > 0 && one > 0 ? run_s(rows + k) / one - 1 : 0);
  return marginal;
}

double StepCost::run_s(int rows) const {
  double most = 0;
  for (int width = 1; width <= std::min(rows, kWidest); ++width) most = std::max(most, guess(width));
  return rows <= kWidest ? most : most * prior(rows) / prior(kWidest);
}

}  // namespace yamata
