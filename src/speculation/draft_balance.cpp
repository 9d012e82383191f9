#include "src/speculation/draft_balance.hpp"

#include <algorithm>
#include <tuple>

namespace yamata {

void DraftBalance::step(int tokens, double seconds, double token_s) {
  tokens_ = kForget * tokens_ + tokens;
  times_ = kForget * times_ + seconds / token_s;
}

void DraftBalance::rest() {
  tokens_ *= kRest;
  times_ *= kRest;
}

std::size_t whose_turn(std::span<const DraftBalance* const> balances) {
  const auto rank = [](const DraftBalance* b) { return std::tuple(b->negative(), b->tried(), b->tried() ? -b->speed() : 0); };
  const auto best = std::ranges::min_element(balances, {}, rank);
  return static_cast<std::size_t>(best - balances.begin());
}

bool ProbeBudget::afford(double seconds) {
  constexpr double kShare = 0.01;
  if (!since_) since_ = Clock::now();
  if (kShare * Clock::seconds_since(*since_) < spent_s_ + seconds) return false;
  spent_s_ += seconds;
  return true;
}

}  // namespace yamata
