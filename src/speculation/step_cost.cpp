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
    int widest;
  };
  std::vector<Pool> pools;
  for (int width = 1; width <= kWidest; ++width) {
    if (!known(width)) continue;
    pools.push_back({of_width_[static_cast<std::size_t>(width)], width});
    while (pools.size() > 1 && pools[pools.size() - 2].mean.value() > pools.back().mean.value()) {
      const Pool wider = pools.back();
      pools.pop_back();
      pools.back().mean.weight += wider.mean.weight;
      pools.back().mean.seconds += wider.mean.seconds;
      pools.back().widest = wider.widest;
    }
  }
  int below = 0;
  auto pool = pools.begin();
  for (int width = 1; width <= kWidest; ++width) {
    if (!known(width)) continue;
    if (width > pool->widest) ++pool;
    fitted_[static_cast<std::size_t>(width)] = pool->mean.value();
    fill(below, width);
    below = width;
  }
  fill(below, kWidest + 1);
}

bool StepCost::known(int rows) const { return of_width_[static_cast<std::size_t>(rows)].weight > 0; }

/// The estimates for widths without runs, between two with runs: in proportion; where there is only one of them (the other is 0 or beyond
/// the widest), grown from that as if nothing were known.
void StepCost::fill(int below, int above) {
  const auto of = [&](int width) -> double& { return fitted_[static_cast<std::size_t>(width)]; };
  for (int width = below + 1; width < above; ++width) {
    if (below == 0)
      of(width) = of(above) * prior(width) / prior(above);
    else if (above > kWidest)
      of(width) = of(below) * prior(width) / prior(below);
    else
      of(width) = of(below) + (of(above) - of(below)) * (width - below) / (above - below);
  }
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
