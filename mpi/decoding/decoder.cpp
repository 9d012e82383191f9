#include "mpi/decoding/decoder.hpp"

#include <algorithm>

namespace yamata {

Decoder::Decoder(Transport& transport, Pipeline& target, std::vector<DraftLink> drafters, const DecodeOptions& options, Choose choose,
                 OnToken on_token)
    : transport_(transport),
      target_(target),
      drafters_(std::move(drafters)),
      options_(options),
      choose_(std::move(choose)),
      on_token_(std::move(on_token)),
      policy_(make_policy(options.policy)),
      partitions_(options.sequences) {
  if (options.lookup) lookup_.emplace(static_cast<int>(drafters_.size()));
}

void Decoder::begin(const std::vector<std::int32_t>& prompt) {
  text_ = prompt;
  prompt_size_ = prompt.size();
  tree_ = std::make_unique<TokenTree>(prompt.back(), static_cast<std::int32_t>(prompt.size()) - 1);
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
  while (prompt_sent_ < prompt_size_ && in_flight_.size() < 2 * static_cast<std::size_t>(target_.ranks().count()) && !holds_prompt()) {
    submit_prompt();
    anything = true;
  }
  while (auto result = target_.take_result()) {
    anything = true;
    const InFlight run = std::move(in_flight_.front());
    in_flight_.pop_front();
    if (result->skipped || run.nodes.empty()) continue;
    if (run.tip) turnaround_.ran(static_cast<int>(run.nodes.size()), Clock::seconds_since(run.sent));
    const auto before = static_cast<std::int32_t>(text_.size());
    walk(run, *result);
    if (static_cast<std::int32_t>(text_.size()) == before) continue;
    target_.stage().trace().mark(TraceEvent::Kind::kCommit, run.run, static_cast<std::int32_t>(text_.size()) - before);
    ++counters_.target_evaluations;
    text_came(static_cast<std::int32_t>(text_.size()) - before);
    if (finished_) {
      leave();
      return true;
    }
    if (!options_.continue_tip) drop_guesses();
    cancel_dead();
    ++epoch_;
    tell_drafters(true);
    look_up();
  }
  while (prompt_sent_ == prompt_size_ && send_next()) anything = true;
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

/// Its last chunk waits for a draft on this rank to have read the prompt: else the second token would.
bool Decoder::holds_prompt() const {
  return drafts_here() && !drafts_complete() && prompt_size_ - prompt_sent_ <= static_cast<std::size_t>(options_.batch);
}

/// The prompt goes in chunks, so that all stages work at the same time; its last token is the tree's root.
void Decoder::submit_prompt() {
  const std::size_t end = std::min(prompt_size_, prompt_sent_ + static_cast<std::size_t>(options_.batch));
  wire::Record record;
  for (; prompt_sent_ < end; ++prompt_sent_) {
    record.tokens.push_back(text_[prompt_sent_]);
    record.placements.push_back({static_cast<std::int32_t>(prompt_sent_), -1, {0, 1}});
  }
  InFlight run;
  if (end == prompt_size_) {
    record.logit_rows.push_back(static_cast<std::int32_t>(record.tokens.size()) - 1);
    run.nodes.push_back(tree_->root().id);
    tree_->root().sent = true;
    tree_->root().sequence = 0;
  }
  record.best = static_cast<std::int32_t>(options_.logits);
  run.run = target_.submit(std::move(record));
  in_flight_.push_back(std::move(run));
  ++counters_.runs_started;
}

/// Commits along the run's nodes as far as they are the text.
void Decoder::walk(const InFlight& run, const RunResult& result) {
  while (!finished_) {
    const auto node = std::find(run.nodes.begin(), run.nodes.end(), tree_->root().id);
    if (node == run.nodes.end()) return;
    std::vector<float> logits = result.row(static_cast<std::size_t>(node - run.nodes.begin()), run.nodes.size());
    const auto began = Clock::now();
    const std::int32_t token = choose_(logits, text_);
    outside_s_ += Clock::seconds_since(began);
    commit(token);
  }
}

void Decoder::commit(std::int32_t token) {
  const NodeId child = tree_->child(tree_->root().id, token);
  const bool guessed = child != kNoNode && tree_->at(child).sent;
  for (DraftLink& drafter : drafters_) drafter.learn(*tree_, token);
  if (lookup_) lookup_->learn(*tree_, token);
  const std::vector<TreeNode> gone = tree_->advance(token);
  partitions_.commit(*tree_, gone);
  policy_->committed(guessed);
  tree_changed_ = true;
  text_.push_back(token);
  ++generated_;
  counters_.accepted += guessed;
  const auto began = Clock::now();
  const bool more = on_token_(token);
  outside_s_ += Clock::seconds_since(began);
  finished_ = !more || generated_ >= options_.generate || static_cast<std::int32_t>(text_.size()) > options_.context;
}

void Decoder::look_up() {
  if (lookup_ && lookup_->guess(*tree_, text_)) tree_changed_ = true;
}

/// `grown`: the text has, just now. A draft that would hold it up for longer than it may save is told later, or never.
void Decoder::tell_drafters(bool grown) {
  const std::int32_t min_drafts = waits_for_draft() ? options_.policy.draft : 0;
  for (DraftLink& drafter : drafters_) {
    const auto least = waits_for_whole_draft() ? grown ? least_worth_drafting(drafter) : std::nullopt : std::optional(0.0f);
    if (!least) continue;
    if (const auto commit = drafter.next_commit(epoch_, text_, min_drafts, *least, !options_.continue_tip))
      transport_.send(drafter.rank(), Tag::kCommit, wire::encode(*commit));
  }
}

void Decoder::on_guesses(int rank, const wire::Guesses& guesses) {
  if (finished_) return;
  const auto began = Clock::now();
  for (DraftLink& drafter : drafters_) {
    if (drafter.rank() != rank || !drafter.alive() || !drafter.take(guesses, *tree_, text_)) continue;
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
  return tree_ && !tree_->root().sent && waits_for_whole_draft() && std::any_of(drafters_.begin(), drafters_.end(), owes);
}

/// Forgets what has been guessed beyond the tip, in flight or not.
void Decoder::drop_guesses() {
  partitions_.release(*tree_, tree_->prune());
  tree_changed_ = true;
}

/// Runs with no living node in them are of no use to anybody: no node that lives or will live reads their cells (hazard H1).
void Decoder::cancel_dead() {
  std::vector<std::uint64_t> dead;
  for (InFlight& run : in_flight_) {
    if (run.cancelled || std::any_of(run.nodes.begin(), run.nodes.end(), [&](NodeId id) { return tree_->alive(id); })) continue;
    run.cancelled = true;
    dead.push_back(run.run);
  }
  if (!options_.cancel) return;
  counters_.runs_cancelled += dead.size();
  target_.cancel(dead);
}

/// The text has ended: what is still out is of no use, and the cache is left as the text has it.
void Decoder::leave() {
  std::vector<std::uint64_t> rest;
  for (const InFlight& run : in_flight_) {
    if (!run.cancelled) rest.push_back(run.run);
  }
  if (options_.cancel) target_.cancel(rest);
  wire::Record record;
  record.operations = partitions_.take_operations();
  target_.submit(std::move(record));
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
  if (!tree_->root().sent) return send_root();
  return options_.strategy == Strategy::kPipeInfer && speculate();
}

/// The tip, with what is worth a row beside it.
bool Decoder::send_root() {
  std::vector<NodeId> nodes;
  if (waits_for_whole_draft() && !drafts_complete()) return false;
  if (waits_for_draft() || (options_.strategy == Strategy::kPipeInfer && policy_->fills_tip_run())) {
    const RunCosts costs = tip_costs();
    nodes = policy_->choose(*tree_, free_guess_cells(), costs);
    if (!waits_for_whole_draft() && worth_waiting(nodes, costs)) return false;
  }
  nodes.insert(nodes.begin(), tree_->root().id);
  return submit(nodes);
}

/// Guesses into the pipeline, as long as its first stage has nothing better to do.
bool Decoder::speculate() {
  const Stage& stage = target_.stage();
  if (!tree_changed_ || stage.computing() || stage.queued() > 0) return false;
  const auto live =
      static_cast<int>(std::count_if(in_flight_.begin(), in_flight_.end(), [](const InFlight& run) { return !run.cancelled; }));
  // A stage that is the first and the last is idle only because its result is on its way.
  const int stages = target_.ranks().count();
  if (live > (stages == 1 && policy_->fills_tip_run() ? 0 : most_live())) return false;
  if (!options_.continuous &&
      std::any_of(in_flight_.begin(), in_flight_.end(), [](const InFlight& run) { return run.speculative && !run.cancelled; }))
    return false;
  const std::vector<NodeId> nodes = policy_->choose(*tree_, free_guess_cells(), guess_costs());
  if (!nodes.empty() && submit(nodes)) {
    policy_->submitted();
    return true;
  }
  tree_changed_ = false;
  return false;
}

/// Guesses that may still be sent: a cell for each beyond those of the text.
std::size_t Decoder::free_guess_cells() const {
  const auto held = static_cast<std::int32_t>(partitions_.speculative_cells());
  return static_cast<std::size_t>(std::max(0, options_.guess_cells - held));
}

bool Decoder::submit(std::span<const NodeId> nodes) {
  std::vector<NodeId> fit;
  for (const NodeId id : nodes) {
    if (tree_->at(id).position < options_.context) fit.push_back(id);
  }
  TreeRun run = partitions_.lay_out(*tree_, fit);
  if (run.nodes.empty()) return false;
  wire::Record record;
  record.operations = partitions_.take_operations();
  record.tokens = std::move(run.tokens);
  record.placements = std::move(run.placements);
  for (std::size_t i = 0; i < run.nodes.size(); ++i) record.logit_rows.push_back(static_cast<std::int32_t>(i));
  record.best = static_cast<std::int32_t>(options_.logits);
  const auto guesses =
      static_cast<std::size_t>(std::count_if(run.nodes.begin(), run.nodes.end(), [&](NodeId id) { return id != tree_->root().id; }));
  counters_.drafted += guesses;
  ++counters_.runs_started;
  const std::uint64_t id = target_.submit(std::move(record));
  const bool tip = run.nodes.front() == tree_->root().id;
  in_flight_.push_back({id, std::move(run.nodes), guesses > 0, false, tip, Clock::now()});
  return true;
}

}  // namespace yamata
