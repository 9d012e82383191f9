// Decoding in steps, in which target and draft wait for each other (DuoDecoding).
#include <algorithm>

#include "mpi/decoding/decoder.hpp"

namespace yamata {

/// Whether the guesses of a step are drafted while the target computes those of the step before (DuoDecoding).
bool Decoder::drafts_during_runs() const { return policy_->goes_in_steps() && options_.strategy == Strategy::kPipeInfer && !drafts_here(); }

/// Whether results become text only after the drafts that are made at the same time are complete: DuoDecoding's target and draft wait for
/// each other after every step. The first token is not held.
bool Decoder::holds_results() const {
  if (!drafts_during_runs() || generated_ == 0) return false;
  return std::ranges::any_of(sources_.all(), [](const auto& source) { return source->pending() && !source->shares_unit(); });
}

/// Measures how many guesses a draft makes during a run. The prompt's run says nothing of that.
void Decoder::plan_step() {
  bool takes_time = false;
  double guess_s = 0;
  for (const auto& source : sources_.all()) {
    const auto needs_s = source->guess_s();
    takes_time |= needs_s.has_value();
    guess_s = std::max(guess_s, needs_s.value_or(0));
  }
  const double run_s = generated_ > 1 ? speed_.turnaround().run_s(1) : 0;
  if (guess_s > 0 && run_s > 0) counters_.cost_coefficient = run_s / guess_s;
  policy_->plan_step(takes_time ? std::max(1.0, counters_.cost_coefficient) : 0);
  counters_.draft_budget = policy_->budget();
}

/// How many guesses of a source make its answer complete; 0: it continues without end. During the prompt's run, one.
std::int32_t Decoder::guesses_of_step(const GuessSource& source) const {
  if (policy_->goes_in_steps()) return generated_ == 0 ? 1 : static_cast<std::int32_t>(policy_->budget());
  return root_waits_for(source) ? options_.policy.draft : 0;
}

/// Counts the sequences that a step has drafted after `tip`.
void Decoder::count_sequences(NodeId tip) {
  const std::size_t count = policy_->sequences(runs_.tree(), tip);
  if (count == 0) return;
  counters_.sequences.resize(std::max(counters_.sequences.size(), count));
  ++counters_.sequences[count - 1];
}

}  // namespace yamata
