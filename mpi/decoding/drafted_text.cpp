#include "mpi/decoding/drafted_text.hpp"

#include <algorithm>

#include "mpi/protocol/wire.hpp"

namespace yamata {
namespace {

constexpr std::size_t kRowsWithRoot = StepCost::kOfAText;  // with more rows the text counts as a prompt, which is sent in chunks of its own

/// The largest number of children of a node.
std::size_t most_ranks(const StaticTree& shape) {
  std::int32_t last = 0;
  for (const StaticTree::Node& node : shape.nodes) last = std::max(last, node.rank);
  return static_cast<std::size_t>(last) + 1;
}

}  // namespace

DraftedText::DraftedText(Batcher& batcher, const Drafting& drafting, SequenceRange sequences)
    : batcher_(batcher),
      drafting_(drafting),
      depths_(static_cast<std::int32_t>(pipeline().stage().model().depths())),
      ranks_(most_ranks(options().shape)),
      choices_(std::max(options().children, static_cast<std::int32_t>(ranks_))),
      search_({}),
      shape_(inner_tree(options().shape), static_cast<std::size_t>(options().width)),
      sequences_(sequences),
      runs_(batcher, sequences,
            {.best = choices_, .sums = true, .feature_layers = {}, .features_read = pipeline().stage().model().features_read()}) {}

void DraftedText::begin(const wire::Commit& commit, CachedBeginning cached) {
  begun_ = true;
  request_ = commit.request;
  take_demand(commit);
  runs_.begin(commit.tokens, cached);
  runs_.send_operations();  // before texts are removed to make room
  begin_epoch(commit);
}

void DraftedText::grow(const wire::Commit& commit) {
  take_demand(commit);
  for (const std::int32_t token : commit.tokens) this->commit(token);
  begin_epoch(commit);
  if (commit.resend) resend();
  runs_.cancel_dead();
}

/// The tree begins with the new end of the text.
void DraftedText::begin_epoch(const wire::Commit& commit) {
  runs_.add_features(commit.features);
  if (drafts_sequences()) tip_ = find_tip();
}

/// What the head wants now; all that was to be told before is out of date.
void DraftedText::take_demand(const wire::Commit& commit) {
  epoch_ = commit.epoch;
  answered_ = complete_told_ = false;
  min_drafts_ = commit.min_drafts;
  least_ = commit.min_path_probability;
  guesses_.clear();
  levels_.clear();
}

void DraftedText::end() {
  runs_.finish();
  begun_ = false;
}

/// Results come in the order of the runs, so the tokens in flight are the last ones that were sent.
std::size_t DraftedText::computed() const {
  std::size_t in_flight = 0;
  for (const TreeRuns::Run& run : runs_.runs()) {
    if (!run.cancelled) in_flight += static_cast<std::size_t>(run.text_rows) + run.nodes.size();
  }
  const std::size_t sent = runs_.text().size() - runs_.unsent_text();
  return sent - std::min(sent, in_flight);
}

/// If the head does not wait for guesses, many are under way behind the text. Then heads continue their guesses, too, from their own hidden
/// states, as long as the accepted ones can be computed again in one run.
void DraftedText::commit(std::int32_t token) {
  calibration_.learn(runs_.tree(), token);
  runs_.commit(token, min_drafts_ == 0 && depths_ == 0 && runs_.unsent_text() + 1 < kRowsWithRoot);
}

void DraftedText::resend() {
  const TokenTree& tree = runs_.tree();
  for (const NodeId id : tree.ids()) {
    const TreeNode& node = tree.at(id);
    if (id != tree.root().id) guesses_.push_back({id, node.parent, node.token, node.draft_probabilities[0].value});
  }
}

bool DraftedText::receive() {
  bool anything = false;
  while (const auto finished = runs_.take_result()) {
    anything = true;
    if (begun_ && !finished->result.skipped && !finished->run.nodes.empty()) expand_all(*finished);
  }
  return anything;
}

void DraftedText::expand_all(const TreeRuns::Finished& finished) {
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
std::vector<BestChoice> DraftedText::choices_of(const RunResult& result, std::size_t i, std::size_t rows) const {
  const std::size_t length = result.logits.size() / rows;
  const std::span<const float> logits = std::span(result.logits).subspan(i * length, length);
  if (result.tokens.empty()) return best_choices(logits, static_cast<std::size_t>(choices_));
  return best_choices(std::span(result.tokens).subspan(i * length, length), logits, result.sums[i]);
}

/// Handles the evaluation of a node. For heads that guess by depth, it holds for all nodes of that depth.
void DraftedText::take(NodeId id, const std::vector<BestChoice>& choices) {
  if (depths_ > 0) {
    levels_.push_back(choices);
    deepest_ = id;
  }
  expand(id, choices);
}

/// Adds the most probable tokens after a node as its children, with calibrated probabilities; the head is sent the draft's own. In a tree
/// that the head waits for, adds all tokens that may be among its best guesses, however improbable.
void DraftedText::expand(NodeId id, std::span<const BestChoice> choices) {
  const auto usual = static_cast<std::size_t>(options().depth > 0 ? DraftOptions{}.children : options().children);
  const float least = fills_tree() ? least_worth() : 1;
  const std::size_t ranks = drafts_sequences() && id == tip_ ? static_cast<std::size_t>(options().sequences) : ranks_;
  std::size_t given = 0;
  for (const BestChoice& choice : choices) {
    const float p = choice.probability;
    const float path = runs_.tree().at(id).path_probability * calibration_.calibrated(runs_.tree(), id, p);
    const bool beside = options().branches > 0 ? p > options().split : path >= options().threshold;
    const bool worth = given < ranks || (given < usual && beside && !drafts_sequences()) || path > least;
    if (!worth && !fills_tree()) break;
    if (!worth) continue;  // a later choice may have a higher calibrated probability
    const NodeId child = calibration_.add(runs_.tree(), id, choice.token, p);
    guesses_.push_back({child, id, choice.token, p});
    ++given;
  }
}

void DraftedText::expand_known() {
  if (levels_.empty()) return;
  for (NodeId id = next_known(); id != kNoNode; id = next_known()) {
    TreeNode& node = runs_.tree().at(id);
    node.sent = true;  // marks the node as expanded, for the search
    expand(id, levels_[static_cast<std::size_t>(depth_of(node))]);
  }
}

std::optional<wire::Guesses> DraftedText::answer(int rows) {
  const bool complete = !complete_told_ && (draft_is_complete() || idle());
  if (guesses_.empty() && !complete && answered_) return std::nullopt;
  answered_ = true;
  complete_told_ |= complete;
  const TreeNode& root = runs_.tree().root();
  const double evaluation_s = pipeline().stage().cost().run_s(rows) * pipeline().ranks().count() + choosing_s_;
  wire::Guesses told{.request = request_,
                     .epoch = epoch_,
                     .root = root.id,
                     .root_position = root.position,
                     .complete = complete,
                     .evaluation_s = evaluation_s,
                     .model = drafting_.model,
                     .guesses = std::move(guesses_)};
  guesses_.clear();
  return told;
}

/// Nothing is in flight and nothing is left to compute, or there are no cells for it.
bool DraftedText::idle() {
  if (runs_.in_flight() > 0) return false;
  return lacks_cells_ || (runs_.tree().root().sent && choose(static_cast<std::size_t>(options().width), 0).empty());
}

std::int32_t DraftedText::least_rows() const {
  const std::size_t unsent = runs_.unsent_text();
  return runs_.tree().root().sent || unsent > kRowsWithRoot ? 1 : static_cast<std::int32_t>(unsent);
}

/// The text comes first: all tokens before the root must be in the cache. Tokens accepted since the last evaluation are sent with the root
/// and need no evaluation of their own.
bool DraftedText::send_next(std::int32_t most, std::int32_t nodes, std::int32_t others) {
  if (!runs_.tree().root().sent) {
    runs_.unsent_text() <= kRowsWithRoot ? runs_.submit_root()
                                         : runs_.submit_text(static_cast<std::size_t>(std::min(most, drafting_.batch)));
    return true;
  }
  const std::vector<NodeId> chosen = choose(static_cast<std::size_t>(std::min(nodes, most)), others);
  return !chosen.empty() && runs_.submit(chosen) != nullptr;
}

}  // namespace yamata
