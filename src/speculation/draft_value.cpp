#include "src/speculation/draft_value.hpp"

#include <algorithm>
#include <limits>

namespace yamata {

double most_saved_s(const DraftTimes& times, double hit, int most) {
  double best = 0, saved = 0, likely = 1;
  for (int guess = 0; guess < most; ++guess) {
    likely *= hit;
    saved += likely * times.token_s - times.row_s - (guess == 0 ? times.first_s : times.next_s);
    best = std::max(best, saved);
  }
  return best;
}

double least_worth_drafting(const DraftTimes& times, double hit) {
  const double saved = hit * times.token_s;
  return saved > 0 ? (times.next_s + times.row_s) / saved : std::numeric_limits<double>::infinity();
}

bool ProbeBudget::afford(double seconds) {
  constexpr double kShare = 0.01;
  if (!since_) since_ = Clock::now();
  if (kShare * Clock::seconds_since(*since_) < spent_s_ + seconds) return false;
  spent_s_ += seconds;
  return true;
}

}  // namespace yamata
