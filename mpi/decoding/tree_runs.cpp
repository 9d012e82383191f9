#include "mpi/decoding/tree_runs.hpp"

#include <algorithm>
#include <utility>

namespace yamata {

void TreeRuns::begin(std::span<const std::int32_t> text, CachedBeginning cached, TokenGrammar* grammar, std::uint32_t state) {
  cancel_rest(true);
  runs_.clear();
  partitions_ = Partitions(sequences_);
  if (lane_.cells().free_cells() < lane_.cells().cell_count()) partitions_.empty_all();
  if (cached.tokens > 0) partitions_.take_over(cached.sequence, cached.tokens);
  text_.assign(text.begin(), text.end());
  // Heads cannot read the first token, because there are no features before it.
  text_sent_ = wants_.features_read > 0 ? 1 : static_cast<std::size_t>(cached.tokens);
  in_states_ = cached.tokens;
  features_.clear();
  tree_.emplace(text_.back(), static_cast<std::int32_t>(text_.size()) - 1, grammar, state);
}

void TreeRuns::commit(std::int32_t token, bool keeps_guesses) {
  const bool reads_features = wants_.features_read > 0;
  if (reads_features && !keeps_guesses) prune();
  const TreeNode& root = tree_->root();
  // A root that was never computed becomes part of the text before the new root, and so does a guess of heads.
  const bool as_text = !reads_features || root.sequence == sequences_.begin;
  for (Run& run : runs_) run.pinned |= as_text && std::find(run.nodes.begin(), run.nodes.end(), root.id) != run.nodes.end();
  if (root.sent && as_text) text_sent_ = text_.size();
  text_.push_back(token);
  const std::vector<TreeNode> gone = tree_->advance(token);
  reads_features ? partitions_.release(gone, text_end(), tree_->root().position) : partitions_.commit(*tree_, gone);
}

/// Where the text in the canonical sequence ends. For heads, accepted guesses between this and the root are not in it yet.
std::int32_t TreeRuns::text_end() const {
  const std::int32_t root = tree_->root().position;
  return wants_.features_read > 0 ? std::min(root, static_cast<std::int32_t>(text_sent_)) : root;
}

void TreeRuns::prune() { partitions_.release(tree_->prune(), text_end(), tree_->root().position); }

/// Begins a run with the part of the text up to `end` that has not been sent.
TreeRuns::Run TreeRuns::add_text(wire::Record& record, std::size_t end) {
  Run run;
  run.text_begin = static_cast<std::int32_t>(text_sent_);
  run.text_rows = static_cast<std::int32_t>(end - text_sent_);
  for (; text_sent_ < end; ++text_sent_) {
    record.tokens.push_back(text_[text_sent_]);
    record.placements.push_back({static_cast<std::int32_t>(text_sent_), -1, partitions_.text()});
  }
  in_states_ = std::max(in_states_, static_cast<std::int32_t>(end));
  return run;
}

/// Moves the features of the record's text tokens into the record; each is needed once.
void TreeRuns::bring_features(wire::Record& record) {
  const auto floats = static_cast<std::ptrdiff_t>(record.tokens.size() * static_cast<std::size_t>(wants_.features_read));
  record.features.assign(features_.begin(), features_.begin() + floats);
  features_.erase(features_.begin(), features_.begin() + floats);
}

void TreeRuns::submit_text(std::size_t most) {
  wire::Record record;
  Run run = add_text(record, std::min(text_.size() - 1, text_sent_ + most));
  record.operations = partitions_.take_operations();
  bring_features(record);
  send(std::move(record), std::move(run));
}

void TreeRuns::submit_end() {
  wire::Record record;
  text_sent_ = text_.size() - 1;
  Run run = add_text(record, text_.size());
  record.operations = partitions_.take_operations();
  send(std::move(record), std::move(run));
}

void TreeRuns::submit_root() {
  wire::Record record;
  Run run = add_text(record, text_.size() - 1);
  const NodeId root = tree_->root().id;
  const TreeRun laid_out = partitions_.lay_out(*tree_, {&root, 1});
  record.operations = partitions_.take_operations();
  record.tokens.push_back(laid_out.tokens[0]);
  record.placements.push_back(laid_out.placements[0]);
  record.logit_rows.push_back(static_cast<std::int32_t>(record.tokens.size()) - 1);
  run.nodes = {root};
  bring_features(record);
  send(std::move(record), std::move(run));
}

const TreeRuns::Run* TreeRuns::submit(std::span<const NodeId> nodes) {
  TreeRun laid_out = partitions_.lay_out(*tree_, nodes);
  if (laid_out.nodes.empty()) return nullptr;
  wire::Record record;
  record.operations = partitions_.take_operations();
  record.tokens = std::move(laid_out.tokens);
  record.placements = std::move(laid_out.placements);
  for (std::size_t i = 0; i < laid_out.nodes.size(); ++i) record.logit_rows.push_back(static_cast<std::int32_t>(i));
  Run run;
  run.has_root = laid_out.nodes.front() == tree_->root().id;
  run.speculative = !run.has_root || laid_out.nodes.size() > 1;
  run.nodes = std::move(laid_out.nodes);
  record.likely_row = likely_row(run);
  return send(std::move(record), std::move(run));
}

/// As StageBatch says. What heads guess is computed again as text.
std::int32_t TreeRuns::likely_row(const Run& run) const {
  std::int32_t likely = -1;
  for (std::size_t row = run.has_root ? 1 : 0; row < run.nodes.size() && wants_.features_read == 0; ++row) {
    const auto node = [&](std::size_t r) -> const TreeNode& { return tree_->at(run.nodes[r]); };
    const bool deepest = likely < 0 || node(row).position > node(static_cast<std::size_t>(likely)).position;
    if (deepest && node(row).path_probability >= 0.5f) likely = static_cast<std::int32_t>(row);
  }
  return likely;
}

const TreeRuns::Run* TreeRuns::send(wire::Record record, Run run) {
  record.best = wants_.best;
  record.sums = wants_.sums;
  if (!wants_.feature_layers.empty()) {
    record.feature_layers = wants_.feature_layers;
    for (std::size_t row = 0; row < record.tokens.size(); ++row) record.feature_rows.push_back(static_cast<std::int32_t>(row));
  }
  // A run of the root is computed by every stage, whatever becomes of its guesses.
  const TreeNode& root = tree_->root();
  run.text_end = root.position + 1;
  if (!run.nodes.empty() && run.nodes.front() == root.id) in_states_ = run.text_end;
  run.unhindered = lane_.outstanding() == 0;
  run.id = lane_.submit(std::move(record));
  run.sent = Clock::now();
  runs_.push_back(std::move(run));
  return &runs_.back();
}

std::optional<TreeRuns::Finished> TreeRuns::take_result() {
  auto result = lane_.take_result();
  if (!result) return std::nullopt;
  const auto found = std::find_if(runs_.begin(), runs_.end(), [&](const Run& run) { return run.id == result->run; });
  Run run;
  if (found != runs_.end()) {
    run = std::move(*found);
    run.rows = result->rows;
    runs_.erase(found);
    if (!result->skipped && !run.nodes.empty()) in_states_ = std::max(in_states_, run.text_end);
  }
  return Finished{std::move(run), std::move(*result)};
}

std::int32_t TreeRuns::not_in_states() const {
  const TreeNode& root = tree_->root();
  return std::max(0, root.position + (root.sent ? 1 : 0) - in_states_);
}

std::size_t TreeRuns::live() const {
  return static_cast<std::size_t>(std::count_if(runs_.begin(), runs_.end(), [](const Run& run) { return !run.cancelled; }));
}

bool TreeRuns::speculating() const {
  return std::any_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.speculative && !run.cancelled; });
}

std::size_t TreeRuns::cancel(const std::vector<Run*>& runs, bool tell) {
  std::vector<std::uint64_t> ids;
  for (Run* run : runs) {
    run->cancelled = true;
    run->cancelled_at = Clock::now();
    ids.push_back(run->id);
  }
  if (!tell) return 0;
  lane_.cancel(ids, wants_.cancel_route);
  return ids.size();
}

std::size_t TreeRuns::cancel_dead(bool tell) {
  std::vector<Run*> dead;
  for (Run& run : runs_) {
    if (run.cancelled || run.pinned || run.nodes.empty()) continue;
    if (std::none_of(run.nodes.begin(), run.nodes.end(), [&](NodeId id) { return tree_->alive(id); })) dead.push_back(&run);
  }
  return cancel(dead, tell);
}

void TreeRuns::cancel_rest(bool tell) {
  std::vector<Run*> rest;
  for (Run& run : runs_) {
    if (!run.cancelled) rest.push_back(&run);
  }
  cancel(rest, tell);
}

void TreeRuns::finish(bool tell) {
  cancel_rest(tell);
  send_operations();
}

void TreeRuns::send_operations() {
  wire::Record record;
  record.operations = partitions_.take_operations();
  lane_.submit(std::move(record));
}

}  // namespace yamata
