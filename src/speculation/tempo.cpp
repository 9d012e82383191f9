#include "src/speculation/tempo.hpp"

#include <algorithm>

namespace yamata {
namespace {

constexpr double kForget = 0.95;  // weight that a result's tokens and time keep with each later one
constexpr double kNew = 0.1;      // weight of the latest wait for guesses
constexpr double kOverdue = 3;

}  // namespace

void Tempo::text_came(int tokens) {
  if (results_ > 0) {
    tokens_ = kForget * tokens_ + tokens;
    seconds_ = kForget * seconds_ + Clock::seconds_since(last_text_);
  }
  ++results_;
  last_text_ = Clock::now();
}

void DraftTempo::begin() {
  texts_ = 0;
  last_text_ = last_guesses_ = {};
  overdue_ = false;
}

void DraftTempo::text_came() {
  ++texts_;
  last_text_ = Clock::now();
}

void DraftTempo::guesses_came() {
  double& usual = answers() ? answer_s_ : next_s_;
  const double waited = Clock::seconds_since(std::max(last_text_, last_guesses_));
  if (texts_ > 1) usual = usual > 0 ? usual + kNew * (waited - usual) : waited;
  last_guesses_ = Clock::now();
  overdue_ = false;
}

bool DraftTempo::overdue() {
  overdue_ |= Clock::seconds_since(std::max(last_text_, last_guesses_)) > kOverdue * wait_s();
  return overdue_;
}

}  // namespace yamata
