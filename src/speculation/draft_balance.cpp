#include "src/speculation/draft_balance.hpp"

#include <algorithm>
#include <tuple>

namespace yamata {

void DraftSums::add(const DraftStep& step, double forget) {
  fade(forget);
  steps += 1;
  tokens += step.tokens;
  own += step.own;
  times += step.seconds / step.token_s;
  costs += step.cost_s / step.token_s;
}

void DraftSums::fade(double factor) {
  for (double* sum : {&steps, &tokens, &own, &times, &costs}) *sum *= factor;
}

double DraftSums::saved() const {
  const double rest = times - costs;
  const double rate = rest > 0 ? (tokens - own) / rest : 1;
  return std::min(tokens - times, own - costs * rate);
}

/// The credit is what the draft is expected to save in a few steps, as far as that is known.
void DraftBalance::begin() {
  recent_ = {};
  credit_ = std::clamp((kPrior * kCredit + kFew * usual_.saved()) / (kPrior + usual_.steps), -kCredit, kCredit);
}

void DraftBalance::step(const DraftStep& step) {
  recent_.add(step, kForget);
  usual_.add(step, kForgetUsual);
  fresh_ = kForgetTrial * fresh_ + step.seconds / step.token_s;
}

void DraftBalance::step_of_another() {
  recent_.fade(kRest);
  fresh_ *= kRest;
}

void DraftBalance::begin_with(const DraftSums& experience) {
  usual_ = experience;
  if (usual_.steps > kMaxFromEarlier) usual_.fade(kMaxFromEarlier / usual_.steps);
  begin();
  if (experience.steps >= kTrial) fresh_ = 1 / (1 - kForgetTrial);
}

double DraftBalance::speed() const {
  const double few = usual_.steps > 0 ? kFew / usual_.steps : 0;
  const double times = recent_.times + few * usual_.times;
  return times > 0 ? (recent_.tokens + few * usual_.tokens) / times : 0;
}

std::size_t whose_turn(std::span<const DraftBalance* const> balances) {
  const auto rank = [](const DraftBalance* b) { return std::tuple(b->is_tried(), b->costs_more(), b->is_tried() ? -b->speed() : 0); };
  const auto best = std::ranges::min_element(balances, {}, rank);
  return static_cast<std::size_t>(best - balances.begin());
}

bool ProbeBudget::spend(double seconds) {
  constexpr double kShare = 0.01;
  if (!since_) since_ = Clock::now();
  if (kShare * Clock::seconds_since(*since_) < spent_s_ + seconds) return false;
  spent_s_ += seconds;
  return true;
}

}  // namespace yamata
