// What a text sends into the pipeline.
#include <algorithm>
#include <utility>

#include "mpi/decoding/decoder.hpp"
#include "node/lap.hpp"
#include "src/speculation/run_shape.hpp"

namespace yamata {

bool Decoder::send() {
  return timed([this] {
    bool anything = false;
    for (; has_prompt(); anything = true) {
      submit_prompt(static_cast<std::size_t>(options_.batch));
      tell_prompt_sent();
    }
    while (!held_ && !reads_prompt() && send_next()) anything = true;
    return anything;
  });
}

bool Decoder::has_prompt() const {
  return !finished_ && reads_prompt() && runs_.in_flight() < 2 * static_cast<std::size_t>(target_.ranks().count()) && !holds_prompt();
}

void Decoder::send_prompt(std::int32_t most) {
  const Lap deciding(counters_.deciding_s);
  submit_prompt(static_cast<std::size_t>(std::clamp(most, 1, options_.batch)));
}

bool Decoder::send_root(std::int32_t others) {
  return timed([&] { return has_root() && send_step(others); });
}

/// Sends the prompt in chunks, so that all stages work at the same time; its last token is the tree's root.
void Decoder::submit_prompt(std::size_t most) {
  runs_.unsent_text() <= most ? runs_.submit_root() : runs_.submit_text(most);
  ++counters_.runs_started;
  prompt_untold_ = true;
}

void Decoder::tell_prompt_sent() {
  if (!std::exchange(prompt_untold_, false) || !on_prompt_sent) return;
  on_prompt_sent(text().size() - runs_.unsent_text() + (runs_.tree().root().sent ? 1 : 0));
}

bool Decoder::send_next() {
  if (finished_) return false;
  if (!runs_.tree().root().sent) return !drafts_pending() && send_step(0);
  return speculate();
}

bool Decoder::send_guesses() {
  return timed([this] { return !held_ && !reads_prompt() && runs_.tree().root().sent && speculate(); });
}

/// Sends the root, with the guesses that are worth their rows; see send_root.
bool Decoder::send_step(std::int32_t others) {
  std::vector<NodeId> nodes;
  const bool pipelined = options_.strategy == Strategy::kPipeInfer, drafted = options_.strategy == Strategy::kSpeculative || drafts_here();
  if (!sends_root_alone_ && (drafted || (pipelined && policy_->fills_root_run()))) {
    const bool followed = pipelined && (!drafts_here() || sources_.drafts_elsewhere());
    const std::vector<double> marginal = target_.stage().cost().marginal(1 + others, options_.policy.draft);
    nodes = choose_guesses(root_costs(times(), marginal, followed));
    if (others == 0 && !policy_->goes_in_steps() && worth_waiting(nodes, marginal)) return false;
  }
  nodes.insert(nodes.begin(), runs_.tree().root().id);
  if (!submit(nodes)) return false;
  if (!drafts_during_runs()) count_sequences(runs_.tree().root().id);
  return true;
}

/// Sends guesses into the pipeline while its first stage is free.
bool Decoder::speculate() {
  const Stage& stage = target_.stage();
  if (options_.strategy != Strategy::kPipeInfer || policy_->goes_in_steps()) return false;
  if (!tree_changed_ || stage.computing() || stage.queued() > 0) return false;
  // If one stage is the whole pipeline, it is idle only while its result is in flight.
  const bool alone = target_.ranks().count() == 1 && policy_->fills_root_run();
  if (alone ? runs_.live() > 0 : steps_in_flight() > most_runs_in_flight(times())) return false;
  if (!options_.continuous && runs_.speculating()) return false;
  const std::vector<NodeId> nodes = choose_guesses(guess_costs(times(), stage.cost().marginal(0, options_.policy.draft)));
  awaits_batch_ = policy_->is_unfinished() && std::ranges::any_of(sources_.all(), [](const auto& s) { return s->pending(); });
  if (!nodes.empty() && !awaits_batch_ && submit(nodes)) {
    policy_->submitted();
    return true;
  }
  tree_changed_ = false;
  return false;
}

std::vector<NodeId> Decoder::choose_guesses(const RunCosts& costs) {
  const Lap lap(counters_.candidates_s);
  return policy_->choose(runs_.tree(), free_guess_cells(), costs);
}

/// Runs in flight that are not cancelled, and those of other texts; with slow links, a wide run counts as several.
double Decoder::steps_in_flight() const {
  const TargetTimes target = times();
  double steps = static_cast<double>(target_.outstanding() - std::min(target_.outstanding(), runs_.in_flight()));
  for (const TreeRuns::Run& run : runs_.runs()) steps += run.cancelled ? 0 : steps_on_links(target, run.nodes.size());
  return steps;
}

TargetTimes Decoder::times() const { return speed_.times(drafts_here()); }

/// Cells of this text's guesses, or the inputs that layers with states keep of them.
std::int32_t Decoder::held_guess_cells() const {
  const std::int32_t accepted = target_.stage().model().has_states() ? runs_.not_in_states() : 0;
  return static_cast<std::int32_t>(runs_.partitions().speculative_cells()) + accepted;
}

/// Number of guesses that may still be sent.
std::size_t Decoder::free_guess_cells() const {
  const std::int32_t others = guess_cells_.held - own_guess_cells_;
  return static_cast<std::size_t>(std::max(0, options_.guess_cells - held_guess_cells() - others));
}

/// Rejected guesses stay in the cache until this text's next run, so they count until then.
void Decoder::count_guess_cells() {
  const std::int32_t held = held_guess_cells();
  guess_cells_.held += held - std::exchange(own_guess_cells_, held);
  counted_accepted_ = runs_.partitions().accepted_cells();
}

bool Decoder::submit(std::span<const NodeId> nodes) {
  const Lap lap(counters_.buffers_s);
  std::vector<NodeId> fit;
  for (const NodeId id : nodes) {
    const TreeNode& node = runs_.tree().at(id);
    if (node.position < options_.context && !node.forbidden) fit.push_back(id);
  }
  const TreeRuns::Run* run = runs_.submit(fit);
  if (!run) return false;
  count_guess_cells();
  counters_.drafted += run->nodes.size() - (run->has_root ? 1 : 0);
  if (target_.stage().trace().enabled() && run->has_root && run->speculative)
    counters_.trees.emplace_back(run->id, run_shape(runs_.tree(), run->nodes));
  ++counters_.runs_started;
  return true;
}

}  // namespace yamata
