#include "mpi/decoding/decoder.hpp"

#include <algorithm>
#include <utility>

#include "mpi/decoding/typical_path.hpp"
#include "node/lap.hpp"
#include "src/speculation/make_policy.hpp"
#include "src/speculation/run_shape.hpp"

namespace yamata {
namespace {

/// Bytes of a row of a result relative to a row of activations.
double result_share(Pipeline& target, const DecodeOptions& options, std::size_t feature_layers) {
  const StageModel& model = target.stage().model();
  const auto hidden = static_cast<double>(options.hidden > 0 ? options.hidden : model.width());
  const auto vocabulary = static_cast<double>(options.vocabulary > 0 ? options.vocabulary : model.vocabulary());
  const double logits = options.logits > 0 ? std::min(2.0 * static_cast<double>(options.logits), vocabulary) : vocabulary;
  return logits / hidden + static_cast<double>(feature_layers);
}

}  // namespace

Decoder::Counters& Decoder::Counters::operator+=(const Counters& later) {
  runs_started += later.runs_started, runs_cancelled += later.runs_cancelled, target_evaluations += later.target_evaluations;
  drafted += later.drafted, accepted += later.accepted;
  cost_coefficient = later.cost_coefficient, draft_budget = later.draft_budget;
  sequences.resize(std::max(sequences.size(), later.sequences.size()));
  for (std::size_t i = 0; i < later.sequences.size(); ++i) sequences[i] += later.sequences[i];
  deciding_s += later.deciding_s, candidates_s += later.candidates_s, buffers_s += later.buffers_s, posterior_s += later.posterior_s;
  trees.insert(trees.end(), later.trees.begin(), later.trees.end());
  return *this;
}

Decoder::Decoder(Target& target, GuessSources& sources, const DecodeOptions& options, Choose choose, OnToken on_token)
    : guess_cells_(target.guess_cells),
      target_(target.pipeline),
      speed_(target.speed),
      sources_(sources),
      options_(options),
      choose_(std::move(choose)),
      on_token_(std::move(on_token)),
      policy_(make_policy(options.policy)),
      readers_(sources),
      runs_(target.batcher, options.sequences,
            {.best = static_cast<std::int32_t>(options.logits),
             .sums = options.sums && options.logits > 0,
             .feature_layers = readers_.layers(),
             .cancel_route = options.cancel_route}) {}

Decoder::~Decoder() {
  guess_cells_.held -= own_guess_cells_;
  if (begun_) speed_.text_ended();
}

void Decoder::begin(const std::vector<std::int32_t>& prompt, CachedBeginning cached) {
  began_ = Clock::now();
  begun_ = true;
  speed_.text_began(result_share(target_, options_, readers_.layers().size()));
  busy_before_s_ = target_.stage().counters().busy_s;
  std::uint32_t state = TokenGrammar::kForbidden;
  if (options_.grammar) {
    forced_.emplace(sources_.next_index(), *options_.grammar, std::span(prompt).last(static_cast<std::size_t>(options_.kept)));
    state = forced_->state();
  }
  runs_.begin(prompt, cached, options_.grammar.get(), state);
  if (cached.tokens > 0) send_operations();  // before the other text is removed
  prompt_computed_ = reused_ = static_cast<std::size_t>(cached.tokens);
  for (const auto& source : sources_.all()) source->begin(options_.request);
  ask_sources();
}

/// The root's result has not arrived, or is the last one that was needed; those of all tokens before it have.
std::size_t Decoder::computed() const {
  return generated_ > 0 ? static_cast<std::size_t>(runs_.tree().root().position) : std::min(prompt_computed_, text().size());
}

std::int32_t Decoder::cells_needed() const {
  const auto prompt =
      std::min(runs_.unsent_text(), 2 * static_cast<std::size_t>(options_.batch) * static_cast<std::size_t>(target_.ranks().count()));
  return static_cast<std::int32_t>(prompt + runs_.partitions().accepted_cells() - counted_accepted_) + 1;
}

/// Records the time of work that did anything.
bool Decoder::timed(const std::function<bool()>& work) {
  if (finished_) return false;
  const auto began = Clock::now();
  callbacks_s_ = 0;
  const bool anything = work();
  if (anything) counters_.deciding_s += Clock::seconds_since(began) - callbacks_s_;
  return anything;
}

bool Decoder::receive() {
  return timed([this] { return take_results(); });
}

/// Takes the results that have arrived, as far as they need not wait for a draft.
bool Decoder::take_results() {
  bool anything = false;
  if (held_ && !holds_results()) {
    anything = true;
    accept(*std::exchange(held_, std::nullopt));
  }
  while (!held_ && !finished_) {
    auto done = runs_.take_result();
    if (!done) break;
    anything = true;
    learn_speed(done->run, done->result.skipped);
    if (done->result.skipped) continue;
    if (holds_results())
      held_ = std::move(done);
    else
      accept(*done);
  }
  return anything;
}

void Decoder::accept(const TreeRuns::Finished& done) {
  bool goes_on = false;
  {
    const Lap lap(counters_.posterior_s);
    goes_on = take(done.run, done.result);
  }
  if (goes_on) ask_sources();
}

/// Adds the tokens that a run's result determines to the text. True if it has grown and has not ended.
bool Decoder::take(const TreeRuns::Run& run, const RunResult& result) {
  if (generated_ > 0 && drafts_during_runs() && !run.nodes.empty()) count_sequences(run.nodes.back());
  for (std::int32_t row = 0; row < run.text_rows; ++row) tell_features(run, result, run.text_begin + row, row);
  if (generated_ == 0) prompt_computed_ += static_cast<std::size_t>(run.text_rows) + run.nodes.size();
  tell_best(run, result);
  const auto before = static_cast<std::int32_t>(text().size());
  walk(run, result);
  const std::int32_t grown = static_cast<std::int32_t>(text().size()) - before;
  if (grown == 0) return false;
  target_.stage().trace().mark(TraceEvent::Kind::kCommit, run.id, grown);
  ++counters_.target_evaluations;
  step_ended(run, grown);
  if (finished_) {
    runs_.finish(options_.cancel);
    return false;
  }
  if (!options_.reuse_tree && !policy_->goes_in_steps()) drop_guesses();
  counters_.runs_cancelled += runs_.cancel_dead(options_.cancel);
  return true;
}

/// A callback has ended: its time is none of the head's own work.
void Decoder::called_back(Clock::time_point began) {
  const double seconds = Clock::seconds_since(began);
  callbacks_s_ += seconds;
  counters_.posterior_s -= seconds;
}

/// A step has added `tokens` tokens to the text: its time, and that of the drafts for which it waited, are recorded.
void Decoder::step_ended(const TreeRuns::Run& run, std::int32_t tokens) {
  const TextStep step{.tokens = tokens,
                      .first = generated_ == tokens,
                      .seconds = Clock::seconds_since(last_text_),
                      .alone_s = token_alone_s(),
                      .rows = static_cast<std::int32_t>(run.nodes.size()),
                      .run_s = &speed_.turnaround()};
  const bool alone = run.has_root && run.sent >= last_text_ && step.rows == 1 && !awaited_draft_;
  sources_.step_ended(step, drafts_here());
  speed_.text_came(tokens, step.seconds, alone, step.first);
  last_text_ = Clock::now();
}

/// Time of a token without any guesses. Where another rank drafts, every step may have guesses, so that of a run with one row stands for
/// it; 0: not known.
double Decoder::token_alone_s() const { return sources_.drafts_elsewhere() ? speed_.turnaround().run_s(1) : speed_.alone().token_s(); }

/// The pipeline's speed from a run's latency.
void Decoder::learn_speed(const TreeRuns::Run& run, bool skipped) {
  if (run.nodes.empty() || (generated_ > 0 && run.sent < prefilled_)) return;  // queued behind the prompt
  if (generated_ > 0) return speed_.run_returned(run, skipped, options_.cancel_route == CancelRoute::kBackward);
  prefilled_ = Clock::now();
  const auto rows = static_cast<int>(text().size() - reused_);
  const int chunks = (rows + options_.batch - 1) / options_.batch;
  speed_.prompt_returned(began_, rows, chunks, target_.stage().counters().busy_s - busy_before_s_);
}

/// Whether a part of the prompt has not been sent.
bool Decoder::reads_prompt() const { return generated_ == 0 && !runs_.tree().root().sent; }

/// Commits tokens along the run's nodes while these are the text.
void Decoder::walk(const TreeRuns::Run& run, const RunResult& result) {
  const auto accepted = options_.typical ? typical_path(runs_.tree(), run, result, *options_.typical) : std::vector<std::int32_t>{};
  std::size_t taken = 0;
  while (!finished_) {
    const TreeNode& root = runs_.tree().root();
    const auto node = std::find(run.nodes.begin(), run.nodes.end(), root.id);
    if (node == run.nodes.end()) return;
    const auto index = node - run.nodes.begin();
    tell_features(run, result, root.position, run.text_rows + static_cast<std::int32_t>(index));
    log_sum_.reset();
    if (!result.sums.empty()) log_sum_ = result.sums[static_cast<std::size_t>(index)];
    std::vector<float> logits = result.row(static_cast<std::size_t>(index), run.nodes.size());
    const auto began = Clock::now();
    const std::int32_t token = taken < accepted.size() ? accepted[taken++] : choose_(logits, text());
    called_back(began);
    commit(token);
  }
}

/// Tells the sources that ask for it which token the target holds most probable after each node.
void Decoder::tell_best(const TreeRuns::Run& run, const RunResult& result) const {
  if (std::ranges::none_of(sources_.all(), [](const auto& source) { return source->reads_best(); })) return;
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < run.nodes.size(); ++i) tokens.push_back(result.best_token(i, run.nodes.size()));
  for (const auto& source : sources_.all()) {
    if (source->reads_best()) source->take_best(run.nodes, tokens);
  }
}

/// Passes on the features of a position of the text, which are in row `row` of the run.
void Decoder::tell_features(const TreeRuns::Run& run, const RunResult& result, std::int32_t position, std::int32_t row) {
  if (result.features.empty()) return;
  readers_.tell(position, result.feature_row(static_cast<std::size_t>(row), static_cast<std::size_t>(run.text_rows) + run.nodes.size()));
}

void Decoder::commit(std::int32_t token) {
  const TokenTree& tree = runs_.tree();
  const NodeId child = tree.child(tree.root().id, token);
  const bool accepted = child != kNoNode && tree.at(child).sent;
  for (const auto& source : sources_.all()) source->learn(tree, token);
  if (forced_) forced_->learn(tree, token);
  runs_.commit(token);
  policy_->committed(accepted);
  tree_changed_ = true;
  ++generated_;
  counters_.accepted += accepted;
  const auto began = Clock::now();
  const bool more = on_token_(token);
  called_back(began);
  finished_ = !more || generated_ >= options_.generate || static_cast<std::int32_t>(text().size()) > options_.context;
}

/// The text has grown: asks every source for guesses.
void Decoder::ask_sources() {
  const Lap lap(counters_.candidates_s);
  ++epoch_;
  plan_step();
  turn_ = sources_.whose_turn();
  sends_root_alone_ = false;
  if (forced_) tree_changed_ |= forced_->guess(runs_.tree(), text(), {.epoch = epoch_, .most = options_.policy.draft});
  // A draft for which the root waits is asked after the others, because it matters what they have guessed.
  for (const bool last : {false, true}) {
    sends_root_alone_ = last && measures_alone();
    for (const auto& source : sources_.all()) {
      if (root_waits_until_complete(*source) == last) tree_changed_ |= source->guess(runs_.tree(), text(), demand(*source));
    }
  }
  awaited_draft_ = drafts_pending();
}

GuessDemand Decoder::demand(const GuessSource& source) const {
  GuessDemand demand{
      .epoch = epoch_,
      .most = options_.policy.draft,
      .min_drafts = guesses_of_step(source),
      .until_complete = root_waits_until_complete(source),
      .suspended = (source.shares_unit() && !has_turn_here(source)) || (sends_root_alone_ && root_waits_until_complete(source)),
      .resend = !options_.reuse_tree && !policy_->goes_in_steps(),
      .at_any_cost = at_any_cost()};
  if (!demand.until_complete) return demand;
  const TargetTimes target = times();
  demand.token_s = token_s(target);
  demand.alone_s = token_alone_s() > 0 ? token_alone_s() : target.round_trip_s;
  demand.open = unguessed_probability(runs_.tree(), source.calibration());
  demand.row_s = delay_s(target, least_row_cost(target_.stage().cost().marginal(1, options_.policy.draft), 0), 1);
  return demand;
}

void Decoder::on_guesses(int rank, const wire::Guesses& guesses) {
  if (finished_) return;
  const Lap deciding(counters_.deciding_s), candidates(counters_.candidates_s);
  DraftLink* const drafter = sources_.drafter_on(rank, guesses.model);
  if (drafter) tree_changed_ |= drafter->on_guesses(guesses, runs_.tree(), text(), demand(*drafter)) || awaits_batch_;
}

void Decoder::drop_drafter(int rank) {
  sources_.drop(rank);
  tree_changed_ |= awaits_batch_;
}

void Decoder::leave() {
  if (!finished_) runs_.finish(options_.cancel);
  finished_ = true;
  for (const auto& source : sources_.all()) source->end();
}

/// Removes all guesses after the root, in flight or not.
void Decoder::drop_guesses() {
  runs_.prune();
  tree_changed_ = true;
}

}  // namespace yamata
