#include "src/speculation/calibration.hpp"

#include <algorithm>
#include <cmath>

namespace yamata {
namespace {

constexpr double kPrior = 4;   // decisions of a bin that the drafter's word counts for
constexpr double kGood = 0.5;  // hits that it is given, for as much stated, before any are known

}  // namespace

/// Bins are equal in log-odds, where a draft's errors are spread evenly.
int Calibration::bin_of(float p) {
  const double q = std::clamp(static_cast<double>(p), 1e-4, 1 - 1e-4);
  const double odds = std::log(q / (1 - q));  // -9.2 ... 9.2
  return std::clamp(static_cast<int>((odds + 6) / 12 * kBins), 0, kBins - 1);
}

/// How far to take the drafter's word where little was said before: in full, unless less than half of all that it stated came true. An
/// over-confident draft states too little of what it finds improbable, so that one factor for all would wrong that.
double Calibration::trust() const { return std::min(1.0, 2 * (kGood + all_.hits()) / (kGood + all_.weight())); }

float Calibration::operator()(float p, bool first) const {
  const Share& bin = bins_[first][static_cast<std::size_t>(bin_of(p))];
  return static_cast<float>((kPrior * static_cast<double>(p) * trust() + bin.hits()) / (kPrior + bin.weight()));
}

void Calibration::decided(float p, bool first, bool came_true) {
  bins_[first][static_cast<std::size_t>(bin_of(p))].count(came_true);
  all_.count(static_cast<double>(p), came_true);
  if (first) firsts_.count(came_true);
}

void Calibration::decided(std::span<const Choice> choices, std::int32_t token) {
  const auto first = std::max_element(choices.begin(), choices.end(),
                                      [](const Choice& a, const Choice& b) { return a.draft_probability < b.draft_probability; });
  for (auto choice = choices.begin(); choice != choices.end(); ++choice) {
    decided(choice->draft_probability, choice == first, choice->token == token);
  }
}

}  // namespace yamata
