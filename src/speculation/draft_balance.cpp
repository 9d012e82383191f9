#include "src/speculation/draft_balance.hpp"

#include <algorithm>
#include <tuple>

namespace yamata {

void DraftBalance::step(const DraftStep& step) {
  tokens_ = kForget * tokens_ + step.tokens;
  own_ = kForget * own_ + step.own;
  times_ = kForget * times_ + step.seconds / step.token_s;
  costs_ = kForget * costs_ + step.cost_s / step.token_s;
}

void DraftBalance::rest() {
  for (double* sum : {&tokens_, &own_, &times_, &costs_}) *sum *= kRest;
}

/// Compared with no guesses at all, and with the other sources alone: these may have guessed most tokens, so its time is worth the tokens
/// that came in the rest of the time.
bool DraftBalance::negative() const {
  if (tokens_ - times_ < -kCredit) return true;
  const double rest = times_ - costs_;
  const double rate = rest > 0 ? (tokens_ - own_) / rest : 1;
  return own_ - costs_ * rate < -kCredit;
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
