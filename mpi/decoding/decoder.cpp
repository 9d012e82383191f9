#include "mpi/decoding/decoder.hpp"

#include <algorithm>

namespace yamata {

Decoder::Decoder(Transport& transport, Pipeline& target, std::vector<DraftLink>& drafters, const DecodeOptions& options, Choose choose,
                 OnToken on_token)
    : transport_(transport),
      target_(target),
      drafters_(drafters),
      options_(options),
      choose_(std::move(choose)),
      on_token_(std::move(on_token)),
      policy_(make_policy(options.policy)),
      runs_(target, options.sequences, static_cast<std::int32_t>(options.logits)) {
  if (options.lookup) lookup_.emplace(static_cast<int>(drafters_.size()));
}

void Decoder::begin(const std::vector<std::int32_t>& prompt) {
  runs_.begin(prompt);
  for (DraftLink& drafter : drafters_) drafter.begin(options_.request);
  ++epoch_;
  tell_drafters(true);
  look_up();
}

bool Decoder::advance() {
  if (finished_) return false;
  const auto began = Clock::now();
  outside_s_ = 0;
  const bool anything = work();
  if (anything) counters_.deciding_s += Clock::seconds_since(began) - outside_s_;
  return anything;
}

bool Decoder::work() {
  bool anything = false;
  while (reads_prompt() && runs_.in_flight() < 2 * static_cast<std::size_t>(target_.ranks().count()) && !holds_prompt()) {
    submit_prompt();
    anything = true;
  }
  while (const auto done = runs_.take_result()) {
    anything = true;
    const TreeRuns::Run& run = done->run;
    if (done->result.skipped || run.nodes.empty()) continue;
    if (run.tip) turnaround_.ran(static_cast<int>(run.nodes.size()), Clock::seconds_since(run.sent));
    const auto before = static_cast<std::int32_t>(text().size());
    walk(run, done->result);
    const std::int32_t grown = static_cast<std::int32_t>(text().size()) - before;
    if (grown == 0) continue;
    target_.stage().trace().mark(TraceEvent::Kind::kCommit, run.id, grown);
    ++counters_.target_evaluations;
    text_came(grown);
    if (finished_) {
      runs_.finish(options_.cancel);
      return true;
    }
    if (!options_.continue_tip) drop_guesses();
    counters_.runs_cancelled += runs_.cancel_dead(options_.cancel);
    ++epoch_;
    tell_drafters(true);
    look_up();
  }
  while (!reads_prompt() && send_next()) anything = true;
  return anything;
}

/// So many tokens at once: what they and the drafts that they waited for took is learned.
void Decoder::text_came(int tokens) {
  const double alone = turnaround_.run_s(1);
  for (DraftLink& drafter : drafters_) {
    if (generated_ > tokens && alone > 0 && drafter.asked(epoch_)) drafter.balance().step(tokens, Clock::seconds_since(last_text_), alone);
    drafter.tempo().text_came();
  }
  tempo_.text_came(tokens);
  last_text_ = Clock::now();
}

/// Not all of the prompt has been sent.
bool Decoder::reads_prompt() const { return generated_ == 0 && !runs_.tree().root().sent; }

/// Its last chunk waits for a draft on this rank to have read the prompt: else the second token would.
bool Decoder::holds_prompt() const {
  return drafts_here() && !drafts_complete() && runs_.unsent_text() <= static_cast<std::size_t>(options_.batch);
}

/// The prompt goes in chunks, so that all stages work at the same time; its last token is the tree's root.
void Decoder::submit_prompt() {
  const auto most = static_cast<std::size_t>(options_.batch);
  runs_.unsent_text() <= most ? runs_.submit_root() : runs_.submit_text(most);
  ++counters_.runs_started;
}

/// Commits along the run's nodes as far as they are the text.
void Decoder::walk(const TreeRuns::Run& run, const RunResult& result) {
  while (!finished_) {
    const auto node = std::find(run.nodes.begin(), run.nodes.end(), runs_.tree().root().id);
    if (node == run.nodes.end()) return;
    std::vector<float> logits = result.row(static_cast<std::size_t>(node - run.nodes.begin()), run.nodes.size());
    const auto began = Clock::now();
    const std::int32_t token = choose_(logits, text());
    outside_s_ += Clock::seconds_since(began);
    commit(token);
  }
}

void Decoder::commit(std::int32_t token) {
  const TokenTree& tree = runs_.tree();
  const NodeId child = tree.child(tree.root().id, token);
  const bool guessed = child != kNoNode && tree.at(child).sent;
  for (DraftLink& drafter : drafters_) drafter.learn(tree, token);
  if (lookup_) lookup_->learn(tree, token);
  runs_.commit(token);
  policy_->committed(guessed);
  tree_changed_ = true;
  ++generated_;
  counters_.accepted += guessed;
  const auto began = Clock::now();
  const bool more = on_token_(token);
  outside_s_ += Clock::seconds_since(began);
  finished_ = !more || generated_ >= options_.generate || static_cast<std::int32_t>(text().size()) > options_.context;
}

void Decoder::look_up() {
  if (lookup_ && lookup_->guess(runs_.tree(), text())) tree_changed_ = true;
}

/// `grown`: the text has, just now. A draft that would hold it up for longer than it may save is told later, or never.
void Decoder::tell_drafters(bool grown) {
  const std::int32_t min_drafts = waits_for_draft() ? options_.policy.draft : 0;
  for (DraftLink& drafter : drafters_) {
    const auto least = waits_for_whole_draft() ? grown ? least_worth_drafting(drafter) : std::nullopt : std::optional(0.0f);
    if (!least) continue;
    if (const auto commit = drafter.next_commit(epoch_, text(), min_drafts, *least, !options_.continue_tip))
      transport_.send(drafter.rank(), Tag::kCommit, wire::encode(*commit));
  }
}

void Decoder::on_guesses(int rank, const wire::Guesses& guesses) {
  if (finished_) return;
  const auto began = Clock::now();
  for (DraftLink& drafter : drafters_) {
    if (drafter.rank() != rank || !drafter.alive() || !drafter.take(guesses, runs_.tree(), text())) continue;
    tree_changed_ = true;
    drafter.tempo().guesses_came();
  }
  tell_drafters(false);
  counters_.deciding_s += Clock::seconds_since(began);
}

void Decoder::drop_drafter(int rank) {
  for (DraftLink& drafter : drafters_) {
    if (drafter.rank() == rank) drafter.drop();
  }
}

bool Decoder::awaits(int rank) const {
  const auto owes = [&](const DraftLink& d) { return d.rank() == rank && d.alive() && d.asked(epoch_) && !d.complete(epoch_); };
  return runs_.begun() && !runs_.tree().root().sent && waits_for_whole_draft() && std::any_of(drafters_.begin(), drafters_.end(), owes);
}

void Decoder::leave() {
  if (!finished_) runs_.finish(options_.cancel);
  finished_ = true;
}

/// Forgets what has been guessed beyond the tip, in flight or not.
void Decoder::drop_guesses() {
  runs_.prune();
  tree_changed_ = true;
}

bool Decoder::drafts_here() const {
  return std::any_of(drafters_.begin(), drafters_.end(), [&](const DraftLink& d) { return d.alive() && d.rank() == transport_.rank(); });
}

/// Guesses go with the tip, which waits for them.
bool Decoder::waits_for_draft() const { return options_.strategy == Strategy::kSpeculative || drafts_here(); }

/// To its end: a draft on this rank takes turns with its layers, so that nothing would ever be guessed if the tip did not wait for it; and
/// a chain is sent as it was drafted.
bool Decoder::waits_for_whole_draft() const { return waits_for_draft() && (drafts_here() || !policy_->fills_tip_run()); }

bool Decoder::drafts_complete() const {
  return std::all_of(drafters_.begin(), drafters_.end(),
                     [&](const DraftLink& d) { return !d.alive() || !d.asked(epoch_) || d.complete(epoch_); });
}

bool Decoder::send_next() {
  if (finished_) return false;
  if (!runs_.tree().root().sent) return send_root();
  return options_.strategy == Strategy::kPipeInfer && speculate();
}

/// The tip, with what is worth a row beside it.
bool Decoder::send_root() {
  std::vector<NodeId> nodes;
  if (waits_for_whole_draft() && !drafts_complete()) return false;
  if (waits_for_draft() || (options_.strategy == Strategy::kPipeInfer && policy_->fills_tip_run())) {
    const RunCosts costs = tip_costs();
    nodes = policy_->choose(runs_.tree(), free_guess_cells(), costs);
    if (!waits_for_whole_draft() && worth_waiting(nodes, costs)) return false;
  }
  nodes.insert(nodes.begin(), runs_.tree().root().id);
  return submit(nodes);
}

/// Guesses into the pipeline, as long as its first stage has nothing better to do.
bool Decoder::speculate() {
  const Stage& stage = target_.stage();
  if (!tree_changed_ || stage.computing() || stage.queued() > 0) return false;
  // A stage that is the first and the last is idle only because its result is on its way.
  const int stages = target_.ranks().count();
  if (static_cast<int>(runs_.live()) > (stages == 1 && policy_->fills_tip_run() ? 0 : most_live())) return false;
  if (!options_.continuous && runs_.speculating()) return false;
  const std::vector<NodeId> nodes = policy_->choose(runs_.tree(), free_guess_cells(), guess_costs());
  if (!nodes.empty() && submit(nodes)) {
    policy_->submitted();
    return true;
  }
  tree_changed_ = false;
  return false;
}

/// Guesses that may still be sent: a cell for each beyond those of the text.
std::size_t Decoder::free_guess_cells() const {
  const auto held = static_cast<std::int32_t>(runs_.partitions().speculative_cells());
  return static_cast<std::size_t>(std::max(0, options_.guess_cells - held));
}

bool Decoder::submit(std::span<const NodeId> nodes) {
  std::vector<NodeId> fit;
  for (const NodeId id : nodes) {
    if (runs_.tree().at(id).position < options_.context) fit.push_back(id);
  }
  const TreeRuns::Run* run = runs_.submit(fit);
  if (!run) return false;
  counters_.drafted += run->nodes.size() - (run->tip ? 1 : 0);
  ++counters_.runs_started;
  return true;
}

}  // namespace yamata
