// What the decoder waits for before it sends the root.
#include <algorithm>

#include "mpi/decoding/decoder.hpp"

namespace yamata {
namespace {

/// Whether a draft saves so much that its savings need not be compared often with the time of a token alone.
bool clearly_saves(const DraftLink& drafter) {
  constexpr double kFew = 8, kTokens = 0.25, kSpeed = 1.25;  // steps; saved per step; of the text, relative to one without guesses
  const DraftSums& sums = drafter.balance().experience();
  return sums.steps >= kFew && sums.saved() > kTokens * sums.steps && sums.tokens > kSpeed * sums.times;
}

}  // namespace

/// Whether the prompt's last chunk must wait: a draft on this rank must have read the prompt first, else the second token would wait for
/// that. Guesses that are made for measurement are awaited wherever they come from.
bool Decoder::holds_prompt() const {
  return (drafts_here() || options_.at_any_cost) && drafts_pending() && runs_.unsent_text() <= static_cast<std::size_t>(options_.batch);
}

/// Whether the root goes without guesses, so that the time of a token without them is known, which is what guesses are compared with. Not
/// where the next token has probably been guessed at no cost.
bool Decoder::measures_alone() const {
  const bool clear = std::ranges::any_of(sources_.drafters(), [](const DraftLink* d) { return d->shares_unit() && clearly_saves(*d); });
  if (at_any_cost() || generated_ == 0 || sources_.drafts_elsewhere() || !speed_.alone().due(clear)) return false;
  return std::any_of(sources_.all().begin(), sources_.all().end(), [&](const auto& source) {
    return root_waits_until_complete(*source) && unguessed_probability(runs_.tree(), source->calibration()) > 0.5;
  });
}

bool Decoder::awaits(int rank) const {
  const auto pending = [&](const DraftLink* drafter) {
    return drafter->rank() == rank && drafter->pending() && (held_ || root_waits_until_complete(*drafter));
  };
  return std::any_of(sources_.drafters().begin(), sources_.drafters().end(), pending) && runs_.begun() &&
         (held_ || !runs_.tree().root().sent);
}

bool Decoder::at_any_cost() const { return options_.at_any_cost || !policy_->considers_costs(); }

/// Whether this rank computes the source, and the source has its turn on the unit. While there are several texts, their tokens use the
/// unit.
bool Decoder::has_turn_here(const GuessSource& source) const {
  return source.shares_unit() && speed_.texts() == 1 && (at_any_cost() || !turn_ || &source == *turn_);
}

bool Decoder::drafts_here() const {
  return std::any_of(sources_.all().begin(), sources_.all().end(), [&](const auto& source) { return has_turn_here(*source); });
}

/// Whether the root waits for the source's guesses, which are then sent with it.
bool Decoder::root_waits_for(const GuessSource& source) const {
  return options_.strategy == Strategy::kSpeculative || has_turn_here(source);
}

/// Whether the root waits until the draft is complete. A draft on this rank shares the unit with the target's layers, so it would never
/// guess if the root did not wait. A chain is sent complete, and so is a tree of a given size.
bool Decoder::root_waits_until_complete(const GuessSource& source) const {
  return root_waits_for(source) && (has_turn_here(source) || !policy_->fills_root_run() || !policy_->considers_costs());
}

/// Whether the root has to wait for a draft.
bool Decoder::drafts_pending() const {
  return std::any_of(sources_.all().begin(), sources_.all().end(),
                     [&](const auto& source) { return source->pending() && root_waits_until_complete(*source); });
}

/// Whether the root should wait for more guesses, which would then be in the same run.
bool Decoder::worth_waiting(std::span<const NodeId> nodes, const std::vector<double>& marginal) {
  const TargetTimes target = times();
  RootRun run{.guesses = nodes.size(),
              .least_probability = 1,
              .last_chance = target.stages == 1 || options_.strategy == Strategy::kSpeculative,
              .marginal = &marginal};
  if (!may_wait(target, run)) return false;
  for (const NodeId id : nodes) run.least_probability = std::min<double>(run.least_probability, runs_.tree().at(id).path_probability);
  return std::any_of(sources_.all().begin(), sources_.all().end(), [&](const auto& source) {
    if (source->shares_unit() || root_waits_until_complete(*source)) return false;  // the root has waited for it, or it is not used now
    const auto latency = source->next_guess();
    if (!latency) return false;
    return yamata::worth_waiting(target, run,
                                 {.first_s = latency->first_s,
                                  .next_s = latency->next_s,
                                  .acceptance = source->calibration().first_choice_rate(),
                                  .open = open_probability(runs_.tree(), source->calibration(), nodes)});
  });
}

}  // namespace yamata
