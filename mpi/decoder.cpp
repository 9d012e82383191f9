#include "mpi/decoder.hpp"

#include <algorithm>

namespace yamata {
namespace {

/// What it is worth that results come a step earlier, in steps: the best, and flat about it, in simulation over acceptance, row cost,
/// draft time and 1 to 13 stages.
constexpr double kLateness = 0.75;

/// What a row beyond `rows` costs at least in the mean of those to come: kernels take rows in tiles.
double least_slope(const std::vector<double>& stretch, std::size_t rows) {
  double least = stretch[rows + 1] - stretch[rows];
  for (std::size_t k = rows + 2; k < stretch.size(); ++k)
    least = std::min(least, (stretch[k] - stretch[rows]) / static_cast<double>(k - rows));
  return least;
}

}  // namespace

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
  tell_drafters();
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
  while (prompt_sent_ < prompt_size_ && in_flight_.size() < 2 * static_cast<std::size_t>(target_.ranks().count())) {
    submit_prompt();
    anything = true;
  }
  while (auto result = target_.take_result()) {
    anything = true;
    const InFlight run = std::move(in_flight_.front());
    in_flight_.pop_front();
    if (result->skipped || run.nodes.empty()) continue;
    const auto before = static_cast<std::int32_t>(text_.size());
    walk(run, *result);
    if (static_cast<std::int32_t>(text_.size()) == before) continue;
    target_.stage().trace().mark(TraceEvent::Kind::kCommit, run.run, static_cast<std::int32_t>(text_.size()) - before);
    ++counters_.target_evaluations;
    tempo_.text_came(static_cast<std::int32_t>(text_.size()) - before);
    for (DraftLink& drafter : drafters_) drafter.tempo().text_came();
    if (finished_) {
      leave();
      return true;
    }
    if (!options_.continue_tip) drop_guesses();
    cancel_dead();
    ++epoch_;
    tell_drafters();
    look_up();
  }
  while (prompt_sent_ == prompt_size_ && send_next()) anything = true;
  return anything;
}

/// The prompt goes in chunks, so that all stages work at the same time; its last token is the tree's root.
void Decoder::submit_prompt() {
  const std::size_t end = std::min(prompt_size_, prompt_sent_ + static_cast<std::size_t>(options_.batch));
  wire::Record record;
  for (; prompt_sent_ < end; ++prompt_sent_) {
    record.tokens.push_back(text_[prompt_sent_]);
    record.placements.push_back({static_cast<std::int32_t>(prompt_sent_), -1, {0, 1}});
  }
  InFlight run{0, {}};
  if (end == prompt_size_) {
    record.wanted.push_back(static_cast<std::int32_t>(record.tokens.size()) - 1);
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

void Decoder::tell_drafters() {
  const std::int32_t wanted = waits_for_draft() ? options_.policy.draft : 0;
  for (DraftLink& drafter : drafters_) {
    if (const auto commit = drafter.next_commit(epoch_, text_, wanted, !options_.continue_tip))
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
  tell_drafters();
  counters_.deciding_s += Clock::seconds_since(began);
}

void Decoder::drop_drafter(int rank) {
  for (DraftLink& drafter : drafters_) {
    if (drafter.rank() == rank) drafter.drop();
  }
}

bool Decoder::awaits(int rank) const {
  const auto owes = [&](const DraftLink& d) { return d.rank() == rank && d.alive() && !d.complete(epoch_); };
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
  return std::all_of(drafters_.begin(), drafters_.end(), [&](const DraftLink& d) { return !d.alive() || d.complete(epoch_); });
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
    nodes = policy_->choose(*tree_, room(), costs);
    if (worth_waiting(nodes, costs)) return false;
  }
  nodes.insert(nodes.begin(), tree_->root().id);
  return submit(nodes);
}

/// How likely a place is at which a drafter may tell something next, below the tip or one of these: the text must come there and go on as
/// nobody has guessed.
double Decoder::open_place(const DraftLink& drafter, std::span<const NodeId> nodes) const {
  double best = 0;
  const auto consider = [&](NodeId id) {
    if (drafter.guesser().continued(*tree_, id)) return;
    double open = tree_->at(id).path_probability;
    for (const NodeId child : tree_->at(id).children) open -= tree_->at(child).path_probability;
    best = std::max(best, open);
  };
  consider(tree_->root().id);
  for (const NodeId id : nodes) {
    if (drafter.guesser().guessed(*tree_, id)) consider(id);
  }
  return best;
}

/// Whether the tip should wait for guesses, which then go in the same run. What waits is the whole text. A guess that comes too late for
/// this run follows a step of the first stage later; with a single stage, or where nothing follows the tip, it is a token of the text that
/// a run has less, and so are those that would have come after it.
bool Decoder::worth_waiting(std::span<const NodeId> nodes, const RunCosts& costs) {
  const double one = target_.stage().cost().run_s(1), rate = tempo_.rate();
  const std::size_t most = costs.stretch.size() - 1;  // guesses of a run
  const bool last_chance = target_.ranks().count() == 1 || options_.strategy == Strategy::kSpeculative;
  if (one <= 0 || rate <= 0 || (nodes.size() >= most && !last_chance)) return false;
  const double longer = nodes.size() < most ? least_slope(costs.stretch, nodes.size()) * one * target_.ranks().count() : 0;
  const double gain = last_chance ? 1 / rate : std::min(1 / rate, kLateness * one);
  double least = 1;
  for (const NodeId id : nodes) least = std::min<double>(least, tree_->at(id).path_probability);
  return std::any_of(drafters_.begin(), drafters_.end(), [&](DraftLink& drafter) {
    DraftTempo& tempo = drafter.tempo();
    if (!drafter.alive() || drafter.complete(epoch_) || tempo.wait_s() <= 0 || tempo.overdue()) return false;
    const double hit = drafter.guesser().first_choice_rate();
    double likely = open_place(drafter, nodes), wait = tempo.wait_s(), value = 0;
    for (std::size_t k = 0; k < (last_chance ? most : 1) && value <= 0; ++k, wait = tempo.next_s()) {
      likely *= hit;
      const bool full = nodes.size() + k >= most;  // then it takes the place of another
      value += (full ? likely - least : likely) * gain - wait - (full ? 0 : longer);
    }
    return value > 0;
  });
}

/// Guesses into the pipeline, as long as its first stage has nothing better to do.
bool Decoder::speculate() {
  const Stage& stage = target_.stage();
  if (!tree_changed_ || stage.computing() || stage.queued() > 0) return false;
  const auto live =
      static_cast<int>(std::count_if(in_flight_.begin(), in_flight_.end(), [](const InFlight& run) { return !run.cancelled; }));
  // A stage that is the first and the last is idle only because its result is on its way.
  const int stages = target_.ranks().count();
  if (live > (stages == 1 && policy_->fills_tip_run() ? 0 : stages)) return false;
  if (!options_.continuous &&
      std::any_of(in_flight_.begin(), in_flight_.end(), [](const InFlight& run) { return run.speculative && !run.cancelled; }))
    return false;
  const std::vector<NodeId> nodes = policy_->choose(*tree_, room(), guess_costs());
  if (!nodes.empty() && submit(nodes)) {
    policy_->submitted();
    return true;
  }
  tree_changed_ = false;
  return false;
}

/// What guesses beside the tip cost: all of the run is later by the stretch at every stage, and the text meanwhile is what the present
/// rate says. Where no draft is waited for, others may follow the tip, and a guess left out is only put off by a step.
RunCosts Decoder::tip_costs() const {
  const StepCost& cost = target_.stage().cost();
  const double per_step = tempo_.rate() * cost.run_s(1);
  return {cost.stretch(1, options_.policy.draft), target_.ranks().count() * (waits_for_draft() ? per_step : std::max(1.0, per_step)), 0};
}

/// What guesses behind the tip cost. A run that is longer holds every stage up for longer: the text that would be had meanwhile at the
/// present rate, or by iterating before one is known; and its own results come later by that much at each stage, which matters as far as
/// its best guess comes true. A guess left out is only put off by one run.
RunCosts Decoder::guess_costs() const {
  const StepCost& cost = target_.stage().cost();
  const int stages = target_.ranks().count();
  const double rate = tempo_.rate() * cost.run_s(1);
  return {cost.stretch(0, options_.policy.draft), rate > 0 ? rate : 1.0 / stages, kLateness * (stages - 1)};
}

/// Guesses that may still be sent: a cell for each beyond those of the text.
std::size_t Decoder::room() const {
  const auto held = static_cast<std::int32_t>(partitions_.speculative_cells());
  return static_cast<std::size_t>(std::max(0, options_.room - held));
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
  for (std::size_t i = 0; i < run.nodes.size(); ++i) record.wanted.push_back(static_cast<std::int32_t>(i));
  record.best = static_cast<std::int32_t>(options_.logits);
  const auto guesses =
      static_cast<std::size_t>(std::count_if(run.nodes.begin(), run.nodes.end(), [&](NodeId id) { return id != tree_->root().id; }));
  counters_.drafted += guesses;
  ++counters_.runs_started;
  const std::uint64_t id = target_.submit(std::move(record));
  in_flight_.push_back({id, std::move(run.nodes), guesses > 0});
  return true;
}

}  // namespace yamata
