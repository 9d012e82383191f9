#include "src/speculation/draft_balance.hpp"

namespace yamata {

bool ProbeBudget::afford(double seconds) {
  constexpr double kShare = 0.01;
  if (!since_) since_ = Clock::now();
  if (kShare * Clock::seconds_since(*since_) < spent_s_ + seconds) return false;
  spent_s_ += seconds;
  return true;
}

}  // namespace yamata
