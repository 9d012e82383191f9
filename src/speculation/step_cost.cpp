#include "src/speculation/step_cost.hpp"

#include <algorithm>
#include <utility>

namespace yamata {
namespace {

constexpr double kForget = 0.9;       // weight that a run keeps with each later one of its width
constexpr double kAge = 0.99;         // weight that it keeps with each later run
constexpr double kMinWeight = 1e-3;   // least weight of a width that had runs
constexpr double kCold = 0.02;        // weight that the first runs keep
constexpr double kPriorPerRow = 0.1;  // of a one-row run, where nothing is known of a width: low enough to be tried

}  // namespace

double StepCost::prior(int rows) { return 1 + kPriorPerRow * (rows - 1); }

void StepCost::ran(int rows, double seconds) {
  if (rows < 1 || rows > kWidest) return;
  if (++runs_ == kWarmUp + 1) {
    for (Mean& mean : of_width_) mean.weight *= kCold, mean.seconds *= kCold;
  }
  for (Mean& mean : of_width_) {
    if (mean.weight > kMinWeight) mean.weight *= kAge, mean.seconds *= kAge;
  }
  Mean& mean = of_width_[static_cast<std::size_t>(rows)];
  mean.weight = kForget * mean.weight + 1;
  mean.seconds = kForget * mean.seconds + seconds;
  fit();
}

/// Isotonic regression by pooling adjacent violators.
void StepCost::fit() {
  struct Pool {
    Mean mean;
    std::vector<std::size_t> widths;
  };
  std::vector<Pool> pools;
  for (std::size_t width = 1; width <= kWidest; ++width) {
    if (of_width_[width].weight <= 0) continue;
    pools.push_back({of_width_[width], {width}});
    while (pools.size() > 1 && pools[pools.size() - 2].mean.value() > pools.back().mean.value()) {
      const Pool wider = std::move(pools.back());
      pools.pop_back();
      pools.back().mean.weight += wider.mean.weight;
      pools.back().mean.seconds += wider.mean.seconds;
      pools.back().widths.insert(pools.back().widths.end(), wider.widths.begin(), wider.widths.end());
    }
  }
  for (const Pool& pool : pools)
    for (const std::size_t width : pool.widths) fitted_[width] = pool.mean.value();
  for (int width = 1; width <= kWidest; ++width) {
    if (of_width_[static_cast<std::size_t>(width)].weight <= 0) fitted_[static_cast<std::size_t>(width)] = between(width);
  }
}

/// The estimate for a width without runs: between the next ones with runs in proportion; where there is only one of them, grown from that
/// as if nothing were known.
double StepCost::between(int rows) const {
  const auto known = [&](int width) { return of_width_[static_cast<std::size_t>(width)].weight > 0; };
  const auto of = [&](int width) { return fitted_[static_cast<std::size_t>(width)]; };
  int below = rows, above = rows;
  while (below > 0 && !known(below)) --below;
  while (above <= kWidest && !known(above)) ++above;
  if (below == 0) return of(above) * prior(rows) / prior(above);
  if (above > kWidest) return of(below) * prior(rows) / prior(below);
  return of(below) + (of(above) - of(below)) * (rows - below) / (above - below);
}

std::vector<double> StepCost::measured_s() const {
  std::vector<double> seconds;
  for (std::size_t rows = 1; rows <= kWidest; ++rows) {
    if (of_width_[rows].weight <= 0) continue;
    seconds.resize(rows);
    seconds.back() = of_width_[rows].value();
  }
  return seconds;
}

std::vector<double> StepCost::marginal(int rows, int most) const {
  const double one = run_s(1), without = run_s(std::max(1, rows));
  std::vector<double> marginal;
  for (int k = 0; k <= most; ++k) marginal.push_back(k > 0 && one > 0 ? (run_s(rows + k) - without) / one : 0);
  return marginal;
}

double StepCost::run_s(int rows) const {
  if (rows < 1) return 0;
  return rows <= kWidest ? fitted_[static_cast<std::size_t>(rows)] : fitted_[kWidest] * prior(rows) / prior(kWidest);
}

}  // namespace yamata
