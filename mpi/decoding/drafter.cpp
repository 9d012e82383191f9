#include "mpi/decoding/drafter.hpp"

#include <algorithm>
#include <utility>

#include "mpi/protocol/validate.hpp"
#include "node/error.hpp"

namespace yamata {

Drafter::Drafter(Transport& transport, std::unique_ptr<Pipeline> pipeline, const Drafting& drafting, const Sequences& sequences)
    : transport_(transport),
      pipeline_(std::move(pipeline)),
      batcher_(*pipeline_),
      drafting_(drafting),
      most_rows_(std::max({drafting.batch, StepCost::kOfAText + 1, drafting.options.width})),
      cache_(*pipeline_, sequences.kept, PrefixCache::Kind::kCells) {
  for (const SequenceRange text : sequences.texts) texts_.push_back(std::make_unique<DraftedText>(batcher_, drafting_, text));
}

DraftedText* Drafter::find(std::uint64_t request) {
  const auto found = std::ranges::find_if(texts_, [&](const auto& text) { return text->begun() && text->request() == request; });
  return found == texts_.end() ? nullptr : found->get();
}

void Drafter::on_commit(const wire::Commit& commit) {
  DraftedText* const text = find(commit.request);
  const wire::CommitLimits limits{.position = text ? static_cast<std::int32_t>(text->text().size()) : 0,
                                  .cells = pipeline_->cells().cell_count(),
                                  .vocabulary = pipeline_->stage().model().vocabulary(),
                                  .features = pipeline_->stage().model().features_read()};
  wire::validate(commit, limits, 0);
  if (!text) return begin(commit);
  commit.ended ? end(*text) : text->grow(commit);
}

/// Heads compute all of a text, since they read its features.
void Drafter::begin(const wire::Commit& commit) {
  const auto free = std::ranges::find_if(texts_, [](const auto& text) { return !text->begun(); });
  if (commit.ended || free == texts_.end())
    throw ClusterError("rank 0 told a draft of more texts than its plan has, or of the end of none");
  const bool reuses = pipeline_->stage().model().features_read() == 0;
  (*free)->begin(commit, cache_.find(commit.tokens, reuses));
}

/// What is computed of the text stays in the cache.
void Drafter::end(DraftedText& text) {
  if (pipeline_->stage().model().features_read() == 0) {
    text.send_operations();
    cache_.keep(text.text(), text.computed(), text.sequences().begin);
  }
  text.end();
  wire::Record record;
  record.operations.push_back(CacheOperation::remove(text.sequences(), {}));
  pipeline_->submit(std::move(record));
}

bool Drafter::advance() {
  bool anything = pipeline_->advance();
  for (const auto& text : texts_) anything |= text->receive();
  push_guesses();
  while (send_run()) anything = true;
  if (std::ranges::any_of(texts_, [](const auto& text) { return text->begun() && text->lacks_cells(); })) push_guesses();
  return anything;
}

void Drafter::push_guesses() {
  const auto texts = std::ranges::count_if(texts_, &DraftedText::begun, [](const auto& text) -> const DraftedText& { return *text; });
  for (const auto& text : texts_) {
    if (!text->begun()) continue;
    if (const auto told = text->answer(static_cast<int>(texts))) transport_.send(0, Tag::kGuesses, wire::encode(*told));
  }
}

/// A text alone may have as many runs in flight as there are stages. Those of several texts wait for each other until the first stage is
/// free, and then share a run; if it is the only stage, until they know the results of the run before.
bool Drafter::may_send(const DraftedText& text) const {
  const auto stages = static_cast<std::size_t>(pipeline_->ranks().count());
  if (!text.begun() || text.in_flight() >= stages) return false;
  if (std::ranges::none_of(texts_, [&](const auto& other) { return other->begun() && other.get() != &text; })) return true;
  const Stage& stage = pipeline_->stage();
  return stages == 1 ? pipeline_->outstanding() == 0 : !stage.computing() && stage.queued() == 0;
}

/// Sends a run with what the texts want to be evaluated next; true if there is any.
bool Drafter::send_run() {
  std::vector<DraftedText*> ready;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    DraftedText* const text = texts_[(turn_ + i) % texts_.size()].get();
    if (may_send(*text)) ready.push_back(text);
  }
  if (ready.empty()) return false;
  cache_.make_room(most_rows_);
  const std::int32_t nodes = std::max(1, drafting_.options.width / static_cast<std::int32_t>(ready.size()));
  bool anything = false;
  batcher_.collect();
  for (DraftedText* const text : ready) {
    const std::int32_t cells = pipeline_->cells().free_cells(), others = batcher_.rows(), least = others + text->least_rows();
    text->lack_cells(least > cells);
    const std::int32_t most = std::min(most_rows_, cells);
    if (least <= most) anything |= text->send_next(most - others, nodes, others);
  }
  batcher_.send();
  turn_ = (turn_ + 1) % texts_.size();
  return anything;
}

double Drafter::candidates_s() const {
  double sum = 0;
  for (const auto& text : texts_) sum += text->candidates_s();
  return sum;
}

}  // namespace yamata
