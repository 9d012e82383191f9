#include "src/speculation/draft_latency.hpp"

#include <algorithm>

namespace yamata {
namespace {

constexpr double kLatestWeight = 0.1;  // weight of the latest latency in the mean, which is that of the last ten or so
constexpr double kOverdue = 3;  // times the usual latency: so long a dead drafter is waited for, once; 2 and 5 are as fast with living ones

}  // namespace

void DraftLatency::begin() {
  texts_ = 0;
  last_text_ = last_guesses_ = {};
  overdue_ = false;
}

void DraftLatency::text_came() {
  ++texts_;
  last_text_ = Clock::now();
}

void DraftLatency::guesses_came() {
  double& usual = next_answers_text() ? answer_s_ : next_s_;
  const double took = Clock::seconds_since(std::max(last_text_, last_guesses_));
  if (texts_ > 1) usual = usual > 0 ? usual + kLatestWeight * (took - usual) : took;
  last_guesses_ = Clock::now();
  overdue_ = false;
}

bool DraftLatency::overdue() {
  overdue_ |= Clock::seconds_since(std::max(last_text_, last_guesses_)) > kOverdue * wait_s();
  return overdue_;
}

}  // namespace yamata
