#include "src/speculation/calibration.hpp"

#include <algorithm>
#include <cmath>

namespace yamata {
namespace {

constexpr double kPrior = 4;   // decisions of a bin that the draft probability itself counts for
constexpr double kGood = 0.5;  // acceptances that a source is given, for as much draft probability, before any are known

}  // namespace

/// Bins are equal in log-odds, where a draft's errors are spread evenly.
int Calibration::bin_of(float p) {
  const double q = std::clamp(static_cast<double>(p), 1e-4, 1 - 1e-4);
  const double odds = std::log(q / (1 - q));  // -9.2 ... 9.2
  return std::clamp(static_cast<int>((odds + 6) / 12 * kBins), 0, kBins - 1);
}

/// How far to trust a draft probability of which little is known: in full, unless less than half of what all guesses promised (the sum of
/// their draft probabilities) was accepted. An over-confident draft promises too little of what it finds improbable, so one factor for
/// all would wrong that.
double Calibration::trust() const { return std::min(1.0, 2 * (kGood + all_.happened()) / (kGood + all_.weight())); }

float Calibration::operator()(float p, bool first) const {
  const Share& bin = bins_[first][static_cast<std::size_t>(bin_of(p))];
  return static_cast<float>((kPrior * static_cast<double>(p) * trust() + bin.happened()) / (kPrior + bin.weight()));
}

void Calibration::decided(float p, bool first, bool accepted) {
  bins_[first][static_cast<std::size_t>(bin_of(p))].count(accepted);
  all_.count(static_cast<double>(p), accepted);
  if (first) firsts_.count(accepted);
}

void Calibration::decided(std::span<const Choice> choices, std::int32_t token) {
  const auto first = std::max_element(choices.begin(), choices.end(),
                                      [](const Choice& a, const Choice& b) { return a.draft_probability < b.draft_probability; });
  for (auto choice = choices.begin(); choice != choices.end(); ++choice) {
    decided(choice->draft_probability, choice == first, choice->token == token);
  }
}

}  // namespace yamata
