#include "launch/program/planning/share_tuner.hpp"

#include <algorithm>
#include <numeric>

#include "node/cut_by_shares.hpp"

namespace yamata {

std::vector<double> isolated_shares(std::span<const double> isolated_s) {
  std::vector<double> shares;
  for (const double seconds : isolated_s) shares.push_back(1 / seconds);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

ShareTuner::ShareTuner(std::span<const double> isolated_s, std::int64_t grains) : step_(std::max<std::int64_t>(1, grains / 8)) {
  std::vector<std::int64_t> cuts(isolated_s.size() + 1);
  cut_by_shares(grains, 1, isolated_shares(isolated_s), cuts);
  for (std::size_t unit = 0; unit < isolated_s.size(); ++unit) trial_.push_back(cuts[unit + 1] - cuts[unit]);
  best_ = trial_;
}

std::vector<double> ShareTuner::shares() const {
  const std::vector<std::int64_t>& grains = done() ? best_ : trial_;
  const auto sum = static_cast<double>(std::accumulate(grains.begin(), grains.end(), std::int64_t{0}));
  std::vector<double> shares;
  for (const std::int64_t count : grains) shares.push_back(static_cast<double>(count) / sum);
  return shares;
}

void ShareTuner::measured(std::span<const double> seconds) {
  if (done()) return;
  const bool first = best_s_ == 0;
  const double longest = std::ranges::max(seconds);
  const auto slowest = static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin());
  if (first || longest < best_s_) {
    if (!first && slowest != slowest_) step_ /= 2;
    best_ = trial_;
    best_s_ = longest;
    slowest_ = slowest;
    fastest_ = static_cast<std::size_t>(std::ranges::min_element(seconds) - seconds.begin());
  } else {
    step_ /= 2;
  }
  propose();
}

void ShareTuner::propose() {
  trial_ = best_;
  step_ = std::min(step_, best_[slowest_] - 1);  // a unit without work could not be measured
  if (slowest_ == fastest_) step_ = 0;
  trial_[slowest_] -= step_;
  trial_[fastest_] += step_;
}

}  // namespace yamata
