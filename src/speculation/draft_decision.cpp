#include "src/speculation/draft_decision.hpp"

#include <algorithm>
#include <limits>

namespace yamata {

double most_saved_s(const DraftTimes& times, const DraftRate& rate, int most) {
  double best = 0, saved = 0, likely = rate.open;
  for (int guess = 0; guess < most; ++guess) {
    likely *= rate.acceptance;
    saved += likely * times.alone_s - times.row_s - (guess == 0 ? times.first_s : times.next_s);
    best = std::max(best, saved);
  }
  return best;
}

double least_expanded(const DraftTimes& times, const DraftRate& rate) {
  const double saved = rate.open * rate.acceptance * times.token_s;
  return saved > 0 ? (times.next_s + times.row_s) / saved : std::numeric_limits<double>::infinity();
}

DraftDecision decide_draft(const DraftCase& draft) {
  using Kind = DraftDecision::Kind;
  constexpr float kTheRootAlone = 1, kSome = 0.3f;  // kSome: the first choices and few others
  if (draft.after_prompt)
    return draft.shares_unit && draft.relative_cost >= draft.rate.acceptance ? DraftDecision{} : DraftDecision{Kind::kDraft, kSome};
  if (draft.times.next_s <= 0 || draft.times.token_s <= 0) return {};
  if (draft.costs_more || most_saved_s(draft.times, draft.rate, draft.most) <= 0) return {Kind::kProbe, kTheRootAlone};
  return {Kind::kDraft, std::min(kTheRootAlone, static_cast<float>(least_expanded(draft.times, draft.rate)))};
}

}  // namespace yamata
