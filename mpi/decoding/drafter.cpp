#include "mpi/decoding/drafter.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "node/error.hpp"

namespace yamata {
namespace {

constexpr std::size_t kRowsWithRoot = StepCost::kWidest;  // more are a prompt, which goes in chunks of its own

}  // namespace

Drafter::Drafter(Transport& transport, std::unique_ptr<Pipeline> pipeline, const DraftOptions& options, std::int32_t context,
                 std::int32_t sequences, std::int32_t batch)
    : transport_(transport),
      pipeline_(std::move(pipeline)),
      options_(options),
      context_(context),
      batch_(batch),
      search_({.draft = options.width, .threshold = options.threshold}),
      partitions_(sequences) {}

void Drafter::on_commit(const wire::Commit& commit) {
  if (commit.position != static_cast<std::int32_t>(text_.size())) throw ClusterError("the drafter lost the thread of the text");
  epoch_ = commit.epoch;
  answered_ = false;
  min_drafts_ = commit.min_drafts;
  least_ = commit.least;
  given_ = 0;
  complete_told_ = false;
  guesses_.clear();
  for (const std::int32_t token : commit.tokens) this->commit(token);
  if (commit.retell) {
    retell();
  } else if (tree_ && min_drafts_ > 0) {  // what survived counts, though it was told before
    given_ = static_cast<std::int32_t>(tree_->guesses());
  }
  abandon();
}

void Drafter::commit(std::int32_t token) {
  text_.push_back(token);
  if (!tree_) {
    tree_ = std::make_unique<TokenTree>(token, static_cast<std::int32_t>(text_.size()) - 1);
    return;
  }
  const bool root_was_sent = tree_->root().sent;
  guesser_.learn(*tree_, token);
  for (InFlight& f : in_flight_) f.pinned |= std::find(f.nodes.begin(), f.nodes.end(), tree_->root().id) != f.nodes.end();
  const std::vector<TreeNode> gone = tree_->advance(token);
  partitions_.commit(*tree_, gone);
  // A root that was never computed becomes plain text before the new one.
  if (root_was_sent) text_sent_ = text_.size() - 1;
}

void Drafter::retell() {
  for (const NodeId id : tree_->ids()) {
    const TreeNode& node = tree_->at(id);
    if (id != tree_->root().id) guesses_.push_back({id, node.parent, node.token, node.words[0].stated});
  }
}

/// Leaves computations that nobody needs any more.
void Drafter::abandon() {
  std::vector<std::uint64_t> runs;
  for (InFlight& f : in_flight_) {
    const bool dead = !f.nodes.empty() && std::none_of(f.nodes.begin(), f.nodes.end(), [&](NodeId id) { return tree_->alive(id); });
    if (!dead || f.cancelled || f.pinned) continue;
    f.cancelled = true;
    runs.push_back(f.run);
  }
  pipeline_->cancel(runs);
}

bool Drafter::advance() {
  bool anything = pipeline_->advance();
  if (!tree_) return anything;
  while (auto result = pipeline_->take_result()) {
    anything = true;
    const InFlight f = std::move(in_flight_.front());
    in_flight_.pop_front();
    if (result->skipped || f.nodes.empty()) continue;
    const std::size_t vocabulary = result->logits.size() / f.nodes.size();
    for (std::size_t i = 0; i < f.nodes.size(); ++i) {
      if (tree_->alive(f.nodes[i])) expand(f.nodes[i], std::span(result->logits).subspan(i * vocabulary, vocabulary));
    }
  }
  push_guesses();
  while (in_flight_.size() < static_cast<std::size_t>(pipeline_->ranks().count()) && begin_next()) anything = true;
  return anything;
}

/// The most probable tokens after a node become its children, with what the draft's word has been worth: the head is told the word.
void Drafter::expand(NodeId id, std::span<const float> logits) {
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(options_.children), logits.size());
  std::vector<std::int32_t> best(logits.size());
  for (std::size_t i = 0; i < best.size(); ++i) best[i] = static_cast<std::int32_t>(i);
  const auto logit = [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
  std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(count), best.end(),
                    [&](std::int32_t a, std::int32_t b) { return std::tuple(-logit(a), a) < std::tuple(-logit(b), b); });
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l - logit(best[0])));
  for (std::size_t i = 0; i < count; ++i) {
    const auto p = static_cast<float>(std::exp(static_cast<double>(logit(best[i]) - logit(best[0]))) / sum);
    if (tree_->at(id).path_probability * guesser_.worth(*tree_, id, p) < options_.threshold && i > 0) break;
    const NodeId child = guesser_.guess(*tree_, id, best[i], p);
    guesses_.push_back({child, id, best[i], p});
  }
}

void Drafter::push_guesses() {
  given_ += static_cast<std::int32_t>(guesses_.size());
  const bool complete = !complete_told_ && (gave_enough() || idle());
  if (guesses_.empty() && !complete && answered_) return;
  answered_ = true;
  complete_told_ |= complete;
  const TreeNode& root = tree_->root();
  transport_.send(0, Tag::kGuesses,
                  wire::encode(wire::Guesses{epoch_, root.id, root.position, complete, evaluation_s(), std::move(guesses_)}));
  guesses_.clear();
}

/// Nothing is computed and nothing is left to compute.
bool Drafter::idle() { return in_flight_.empty() && tree_->root().sent && choose().empty(); }

/// A node more is worth its time while it is more probable than the share of a step that it takes.
RunCosts Drafter::run_costs() const { return {pipeline_->stage().cost().stretch(0, options_.width), 1, 0}; }

/// What a node's evaluation takes, all ranks of the draft together.
double Drafter::evaluation_s() const { return pipeline_->stage().cost().run_s(1) * pipeline_->ranks().count(); }

/// The most probable nodes that have not been computed, if the best is worth an evaluation.
std::vector<NodeId> Drafter::choose() {
  if (gave_enough() || tree_->guesses() >= static_cast<std::size_t>(options_.credit)) return {};
  std::vector<NodeId> nodes = search_.choose(*tree_, static_cast<std::size_t>(options_.width), run_costs());
  std::erase_if(nodes, [&](NodeId id) { return tree_->at(id).position + 1 >= context_; });
  const bool any = std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) { return tree_->at(id).path_probability >= least_; });
  return any ? nodes : std::vector<NodeId>{};
}

bool Drafter::begin_next() {
  // Text first: everything before the root must be there.
  if (!tree_->root().sent) {
    const std::size_t rows = text_.size() - text_sent_;
    rows <= kRowsWithRoot ? submit_root() : submit_text();
    return true;
  }
  const std::vector<NodeId> nodes = choose();
  if (nodes.empty()) return false;
  const std::size_t before = in_flight_.size();
  submit_nodes(nodes);
  return in_flight_.size() > before;
}

/// The next chunk of text before the root, whose logits nobody needs.
void Drafter::submit_text() {
  const std::size_t end = std::min(text_.size() - 1, text_sent_ + static_cast<std::size_t>(batch_));
  wire::Record record;
  record.operations = partitions_.take_operations();
  for (; text_sent_ < end; ++text_sent_) {
    record.tokens.push_back(text_[text_sent_]);
    record.placements.push_back({static_cast<std::int32_t>(text_sent_), -1, {0, 1}});
  }
  in_flight_.push_back({pipeline_->submit(std::move(record)), {}});
}

/// The root, with what text there is before it: what was accepted since the last evaluation costs no evaluation of its own.
void Drafter::submit_root() {
  wire::Record record;
  for (; text_sent_ + 1 < text_.size(); ++text_sent_) {
    record.tokens.push_back(text_[text_sent_]);
    record.placements.push_back({static_cast<std::int32_t>(text_sent_), -1, {0, 1}});
  }
  const NodeId root = tree_->root().id;
  const TreeRun run = partitions_.lay_out(*tree_, {&root, 1});
  record.operations = partitions_.take_operations();
  record.tokens.push_back(run.tokens[0]);
  record.placements.push_back(run.placements[0]);
  record.logit_rows.push_back(static_cast<std::int32_t>(record.tokens.size()) - 1);
  in_flight_.push_back({pipeline_->submit(std::move(record)), {root}});
}

void Drafter::submit_nodes(std::span<const NodeId> nodes) {
  TreeRun run = partitions_.lay_out(*tree_, nodes);
  if (run.nodes.empty()) return;
  wire::Record record;
  record.operations = partitions_.take_operations();
  record.tokens = std::move(run.tokens);
  record.placements = std::move(run.placements);
  for (std::size_t i = 0; i < run.nodes.size(); ++i) record.logit_rows.push_back(static_cast<std::int32_t>(i));
  in_flight_.push_back({pipeline_->submit(std::move(record)), std::move(run.nodes)});
}

}  // namespace yamata
