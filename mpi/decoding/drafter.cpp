#include "mpi/decoding/drafter.hpp"

#include <algorithm>
#include <functional>

#include "mpi/protocol/validate.hpp"

namespace yamata {
namespace {

constexpr std::size_t kRowsWithRoot = StepCost::kWidest;  // with more rows the text counts as a prompt, which is sent in chunks of its own

/// The largest number of children of a node.
std::size_t most_ranks(const StaticTree& shape) {
  std::int32_t last = 0;
  for (const StaticTree::Node& node : shape.nodes) last = std::max(last, node.rank);
  return static_cast<std::size_t>(last) + 1;
}

}  // namespace

Drafter::Drafter(Transport& transport, std::int32_t model, std::unique_ptr<Pipeline> pipeline, const DraftOptions& options,
                 std::int32_t context, SequenceRange sequences, std::int32_t batch, SequenceRange kept)
    : transport_(transport),
      model_(model),
      pipeline_(std::move(pipeline)),
      batcher_(*pipeline_),
      options_(options),
      context_(context),
      batch_(batch),
      depths_(static_cast<std::int32_t>(pipeline_->stage().model().depths())),
      ranks_(most_ranks(options.shape)),
      choices_(std::max(options.children, static_cast<std::int32_t>(ranks_))),
      search_({}),
      shape_(inner_tree(options.shape), static_cast<std::size_t>(options.width)),
      text_sequence_(sequences.begin),
      runs_(batcher_, sequences,
            {.best = choices_, .sums = true, .feature_layers = {}, .features_read = pipeline_->stage().model().features_read()}),
      cache_(*pipeline_, kept, PrefixCache::Kind::kCells) {}

void Drafter::on_commit(const wire::Commit& commit) {
  const bool begins = !runs_.begun() || commit.request != request_;
  const std::size_t known = begins ? 0 : runs_.text().size();
  const wire::CommitLimits limits{.position = static_cast<std::int32_t>(known),
                                  .cells = pipeline_->cells().cell_count(),
                                  .vocabulary = pipeline_->stage().model().vocabulary(),
                                  .features = pipeline_->stage().model().features_read()};
  wire::validate(commit, limits, 0);
  epoch_ = commit.epoch;
  answered_ = false;
  min_drafts_ = commit.min_drafts;
  least_ = commit.min_path_probability;
  complete_told_ = false;
  guesses_.clear();
  levels_.clear();
  request_ = commit.request;
  if (begins) {
    begin(commit.tokens);
  } else {
    for (const std::int32_t token : commit.tokens) this->commit(token);
  }
  runs_.add_features(commit.features);
  if (drafts_sequences()) tip_ = find_tip();
  if (commit.resend) resend();
  runs_.cancel_dead();
}

/// What is computed of the last text stays in the cache. Heads compute all of a text, since they read its features.
void Drafter::begin(std::span<const std::int32_t> text) {
  if (pipeline_->stage().model().features_read() > 0) return runs_.begin(text);
  if (runs_.begun()) keep_text();
  runs_.begin(text, cache_.find(text, true));
  runs_.send_operations();  // before texts are removed to make room
}

/// Results come in the order of the runs, so the tokens in flight are the last ones that were sent.
void Drafter::keep_text() {
  std::size_t in_flight = 0;
  for (const TreeRuns::Run& run : runs_.runs()) {
    if (!run.cancelled) in_flight += static_cast<std::size_t>(run.text_rows) + run.nodes.size();
  }
  const std::size_t sent = runs_.text().size() - runs_.unsent_text();
  runs_.send_operations();
  cache_.keep(runs_.text(), sent - std::min(sent, in_flight), text_sequence_, false);
}

/// If the head does not wait for guesses, many are under way behind the text. Then heads continue their guesses, too, from their own hidden
/// states, as long as the accepted ones can be computed again in one run.
void Drafter::commit(std::int32_t token) {
  calibration_.learn(runs_.tree(), token);
  runs_.commit(token, min_drafts_ == 0 && depths_ == 0 && runs_.unsent_text() + 1 < kRowsWithRoot);
}

void Drafter::resend() {
  const TokenTree& tree = runs_.tree();
  for (const NodeId id : tree.ids()) {
    const TreeNode& node = tree.at(id);
    if (id != tree.root().id) guesses_.push_back({id, node.parent, node.token, node.draft_probabilities[0].value});
  }
}

bool Drafter::advance() {
  bool anything = pipeline_->advance();
  if (!runs_.begun()) return anything;
  while (const auto finished = runs_.take_result()) {
    anything = true;
    if (!finished->result.skipped && !finished->run.nodes.empty()) expand_all(*finished);
  }
  push_guesses();
  while (runs_.in_flight() < static_cast<std::size_t>(pipeline_->ranks().count()) && begin_next()) anything = true;
  return anything;
}

void Drafter::expand_all(const TreeRuns::Finished& finished) {
  constexpr double kNew = 0.1;  // weight of the latest evaluation
  const auto began = Clock::now();
  const auto& [run, result] = finished;
  for (std::size_t i = 0; i < run.nodes.size(); ++i) {
    if (runs_.tree().alive(run.nodes[i])) take(run.nodes[i], choices_of(result, i, run.nodes.size()));
  }
  expand_known();
  const double took = Clock::seconds_since(began);
  candidates_s_ += took;
  choosing_s_ = choosing_s_ > 0 ? choosing_s_ + kNew * (took - choosing_s_) : took;
}

/// The most probable tokens of the i-th of `rows` evaluated nodes.
std::vector<BestChoice> Drafter::choices_of(const RunResult& result, std::size_t i, std::size_t rows) const {
  const std::size_t length = result.logits.size() / rows;
  const std::span<const float> logits = std::span(result.logits).subspan(i * length, length);
  if (result.tokens.empty()) return best_choices(logits, static_cast<std::size_t>(choices_));
  return best_choices(std::span(result.tokens).subspan(i * length, length), logits, result.sums[i]);
}

/// Handles the evaluation of a node. For heads that guess by depth, it holds for all nodes of that depth.
void Drafter::take(NodeId id, const std::vector<BestChoice>& choices) {
  if (depths_ > 0) {
    levels_.push_back(choices);
    deepest_ = id;
  }
  expand(id, choices);
}

/// Adds the most probable tokens after a node as its children, with calibrated probabilities; the head is sent the draft's own. In a tree
/// that the head waits for, adds all tokens that may be among its best guesses, however improbable.
void Drafter::expand(NodeId id, std::span<const BestChoice> choices) {
  const auto usual = static_cast<std::size_t>(options_.depth > 0 ? DraftOptions{}.children : options_.children);
  const float least = fills_tree() ? least_worth() : 1;
  const std::size_t ranks = drafts_sequences() && id == tip_ ? static_cast<std::size_t>(options_.sequences) : ranks_;
  std::size_t given = 0;
  for (const BestChoice& choice : choices) {
    const float p = choice.probability;
    const float path = runs_.tree().at(id).path_probability * calibration_.calibrated(runs_.tree(), id, p);
    const bool beside = options_.branches > 0 ? p > options_.split : path >= options_.threshold;
    const bool worth = given < ranks || (given < usual && beside && !drafts_sequences()) || path > least;
    if (!worth && !fills_tree()) break;
    if (!worth) continue;  // a later choice may have a higher calibrated probability
    const NodeId child = calibration_.add(runs_.tree(), id, choice.token, p);
    guesses_.push_back({child, id, choice.token, p});
    ++given;
  }
}

/// The head waits for a dynamic tree of a given size.
bool Drafter::fills_tree() const { return min_drafts_ > 0 && options_.depth > 0; }

/// chain: whether the node is probable enough to be expanded. While the head waits, the cut-off ends the draft; else the head applies it,
/// when it knows how many runs there are.
bool Drafter::passes_cut_off(const TreeNode& node) const {
  return options_.branches == 0 || min_drafts_ == 0 || node.draft_probabilities[0].value >= options_.accept;
}

/// DuoDecoding's sequences. Heads that guess by depth have their guesses in a single evaluation.
bool Drafter::drafts_sequences() const { return options_.sequences > 0 && depths_ == 0; }

/// The end of the guesses that the target verifies now: down the best ones, below which sequences begin.
NodeId Drafter::find_tip() {
  NodeId tip = runs_.tree().root().id;
  for (auto next = drafted_order(runs_.tree(), tip); !next.empty(); next = drafted_order(runs_.tree(), tip)) tip = next.front();
  return tip;
}

/// The nodes that sequences continue after, the shortest sequence first. An end that is being evaluated is left out.
std::vector<NodeId> Drafter::sequence_ends() {
  const TokenTree& tree = runs_.tree();
  if (expansions_left() == 0) return {};
  if (!tree.at(tip_).sent) return {tip_};
  const auto budget = static_cast<std::size_t>(std::max(min_drafts_, 1));
  const std::vector<NodeId> firsts = drafted_order(tree, tip_);
  if (firsts.empty() || budget == 1) return {};
  const bool fixed = options_.fixed_sequences;
  if (!fixed && !tree.at(firsts[0]).sent) return {firsts[0]};
  if (!fixed && tree.at(firsts[0]).children.empty()) return {};  // the number of sequences depends on the token after it
  const std::size_t count = MultiSequence::sequence_count(tree, firsts, budget, fixed ? options_.sequences : 0);
  const auto last = tree.at(tip_).position + static_cast<std::int32_t>(budget / count);
  std::vector<NodeId> ends;
  for (std::size_t s = 0; s < count; ++s) {
    NodeId id = firsts[s];
    while (tree.at(id).sent && !tree.at(id).children.empty()) id = drafted_order(tree, id).front();
    if (!tree.at(id).sent && tree.at(id).position < last) ends.push_back(id);
  }
  std::ranges::stable_sort(ends, {}, [&](NodeId id) { return tree.at(id).position; });
  ends.resize(std::min({ends.size(), static_cast<std::size_t>(options_.width), expansions_left()}));
  return ends;
}

/// Whether no more nodes may be expanded. In a tree that the head waits for, only the number of cells limits that.
bool Drafter::may_expand_no_more() {
  const TokenTree& tree = runs_.tree();
  if (!fills_tree()) return tree.guesses() >= static_cast<std::size_t>(options_.credit);
  return depths_ == 0 && expansions_left() == 0;
}

/// Number of nodes that may still be expanded, if each needs a cell.
std::size_t Drafter::expansions_left() {
  const std::vector<NodeId> ids = runs_.tree().ids();
  const auto expanded = std::ranges::count_if(ids, [&](NodeId id) { return id != runs_.tree().root().id && runs_.tree().at(id).sent; });
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(options_.credit - expanded, 0));
}

std::int32_t Drafter::depth_of(const TreeNode& node) { return node.position - runs_.tree().root().position; }

/// Whether its children are known without an evaluation.
bool Drafter::is_known(const TreeNode& node) { return static_cast<std::size_t>(depth_of(node)) < levels_.size(); }

/// Whether guesses after it are useful and possible.
bool Drafter::is_followed(const TreeNode& node) {
  const std::int32_t depth = depth_of(node);
  return (options_.depth == 0 || depth < options_.depth) && (depths_ == 0 || depth < depths_);
}

/// A node's children may be among the guesses that the head waits for only if its path probability is above this; negative: always.
float Drafter::least_worth() {
  const auto wanted = static_cast<std::size_t>(min_drafts_);
  if (wanted == 0 || runs_.tree().guesses() < wanted) return -1;
  std::vector<float> probabilities;
  for (const NodeId id : runs_.tree().ids()) {
    if (id != runs_.tree().root().id) probabilities.push_back(runs_.tree().at(id).path_probability);
  }
  const auto last = probabilities.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
  std::nth_element(probabilities.begin(), last, probabilities.end(), std::greater());
  return *last;
}

/// Nodes that are worth expanding; `known`: those that need no evaluation for that, else those that do.
std::vector<NodeId> Drafter::candidates(bool known) {
  const float least = least_worth();
  std::vector<NodeId> nodes;
  for (const NodeId id : runs_.tree().ids()) {
    const TreeNode& node = runs_.tree().at(id);
    const bool open = !node.sent && id != runs_.tree().root().id && is_followed(node) && is_known(node) == known && passes_cut_off(node);
    if (open && (fills_tree() || node.path_probability >= options_.threshold) && node.path_probability > least) nodes.push_back(id);
  }
  return nodes;
}

/// The next node to expand without an evaluation: one that is missing in the shape, or the most probable one; kNoNode: none is worth it.
NodeId Drafter::next_known() {
  for (const NodeId id : open_places()) {
    if (is_known(runs_.tree().at(id))) return id;
  }
  const bool shaped = min_drafts_ > 0 && options_.shape.width() > 1;  // the head only waits for the shape
  if (shaped || may_expand_no_more()) return kNoNode;
  const std::vector<NodeId> best = search_.choose_among(runs_.tree(), candidates(true), 1, {});
  return best.empty() ? kNoNode : best.front();
}

void Drafter::expand_known() {
  if (levels_.empty()) return;
  for (NodeId id = next_known(); id != kNoNode; id = next_known()) {
    TreeNode& node = runs_.tree().at(id);
    node.sent = true;  // marks the node as expanded, for the search
    expand(id, levels_[static_cast<std::size_t>(depth_of(node))]);
  }
}

void Drafter::push_guesses() {
  const bool complete = !complete_told_ && (draft_is_complete() || idle());
  if (guesses_.empty() && !complete && answered_) return;
  answered_ = true;
  complete_told_ |= complete;
  const TreeNode& root = runs_.tree().root();
  wire::Guesses told{.request = request_,
                     .epoch = epoch_,
                     .root = root.id,
                     .root_position = root.position,
                     .complete = complete,
                     .evaluation_s = evaluation_s(),
                     .model = model_,
                     .guesses = std::move(guesses_)};
  transport_.send(0, Tag::kGuesses, wire::encode(told));
  guesses_.clear();
}

/// Nothing is in flight and nothing is left to compute.
bool Drafter::idle() { return runs_.in_flight() == 0 && runs_.tree().root().sent && choose().empty(); }

/// Another node is worth its time while its probability is higher than the share of a step that it needs. If a fixed number of guesses is
/// needed at any cost, time is not considered, so that the guesses are the same on every machine.
RunCosts Drafter::run_costs() const {
  if (min_drafts_ > 0 && least_ == 0) return {};
  return {.occupancy = pipeline_->stage().cost().marginal(0, depths_ > 0 ? 1 : options_.width), .lateness = {}};
}

/// Time to evaluate a node on all ranks of the draft, including the choice of guesses.
double Drafter::evaluation_s() const { return pipeline_->stage().cost().run_s(1) * pipeline_->ranks().count() + choosing_s_; }

/// Nodes of the shape whose children are missing.
std::vector<NodeId> Drafter::open_places() { return shape_.choose(runs_.tree(), static_cast<std::size_t>(options_.width), {}); }

/// Whether the draft is complete. With a fixed shape: the shape is filled. Otherwise: there are as many guesses as the head waits for, and
/// they are at least as probable as any node that is not expanded yet or in flight, and thus as any of its children.
bool Drafter::draft_is_complete() {
  if (min_drafts_ == 0 || drafts_sequences()) return false;  // sequences are, when nothing is left to do
  if (options_.shape.width() > 1) return runs_.in_flight() == 0 && runs_.tree().root().sent && open_places().empty();
  float open = 0;
  for (const TreeRuns::Run& run : runs_.runs()) {  // the children of these nodes are not known yet
    for (const NodeId id : run.nodes) open = std::max(open, runs_.tree().alive(id) ? runs_.tree().at(id).path_probability : 0);
  }
  for (const NodeId id : runs_.tree().ids()) {
    const TreeNode& node = runs_.tree().at(id);
    if (!node.sent && is_followed(node)) open = std::max(open, node.path_probability);
  }
  return least_worth() >= open;
}

/// The nodes to evaluate next: those missing in the shape, then the most probable ones, if the best is worth an evaluation. For heads that
/// guess by depth, one node stands for all of the same depth.
std::vector<NodeId> Drafter::choose() {
  std::vector<NodeId> nodes = drafts_sequences() ? sequence_ends() : open_places();
  if (nodes.empty() && !drafts_sequences()) {
    if (draft_is_complete() || may_expand_no_more()) return {};
    const auto width = static_cast<std::size_t>(options_.width);
    const std::size_t most = fills_tree() && depths_ == 0 ? std::min(width, expansions_left()) : width;
    nodes = search_.choose_among(runs_.tree(), candidates(false), most, run_costs());
    const bool any = std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) { return runs_.tree().at(id).path_probability >= least_; });
    if (!any) return {};
  }
  std::erase_if(nodes, [&](NodeId id) { return runs_.tree().at(id).position + 1 >= context_; });
  if (depths_ > 0 && !nodes.empty()) return {ranked_children(runs_.tree(), deepest_).front()};
  return nodes;
}

bool Drafter::begin_next() {
  cache_.make_room(std::max({batch_, static_cast<std::int32_t>(kRowsWithRoot) + 1, options_.width}));
  // The text comes first: all tokens before the root must be in the cache. Tokens accepted since the last evaluation are sent with the root
  // and need no evaluation of their own.
  if (!runs_.tree().root().sent) {
    runs_.unsent_text() <= kRowsWithRoot ? runs_.submit_root() : runs_.submit_text(static_cast<std::size_t>(batch_));
    return true;
  }
  const std::vector<NodeId> nodes = choose();
  return !nodes.empty() && runs_.submit(nodes) != nullptr;
}

}  // namespace yamata
