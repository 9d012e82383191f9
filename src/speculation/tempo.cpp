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

void Tempo::guesses_came() {
  const double waited = Clock::seconds_since(std::max(last_text_, last_guesses_));
  if (results_ > 1) draft_s_ = draft_s_ > 0 ? draft_s_ + kNew * (waited - draft_s_) : waited;
  last_guesses_ = Clock::now();
  overdue_ = false;
}

bool Tempo::overdue() {
  overdue_ |= Clock::seconds_since(std::max(last_text_, last_guesses_)) > kOverdue * draft_s_;
  return overdue_;
}

}  // namespace yamata
