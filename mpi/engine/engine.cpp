#include "mpi/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "node/error.hpp"

namespace yamata {
namespace {

/// The cache of texts that have ended, in sequences behind those of the slots.
PrefixCache make_cache(Pipeline& target, const wire::PipelinePlan& plan, const DecodeOptions& options) {
  const StageModel& model = target.stage().model();
  if (model.window() > 0 || model.has_states())
    return {target, {plan.sequences - plan.checkpoints, plan.sequences}, PrefixCache::Kind::kCheckpoints, model.window()};
  const std::int32_t begin = options.all_sequences();
  return {target, {begin, begin + options.kept_texts}, PrefixCache::Kind::kCells};
}

wire::PipelinePlan plan_of_target(const Head& head) {
  return head.plan().pipelines.empty() ? wire::PipelinePlan{} : head.plan().pipelines.front();
}

}  // namespace

Engine::Engine(Head& head, GuessSources sources, const DecodeOptions& options)
    : Engine(head.target(), plan_of_target(head), std::move(sources), options) {
  head_ = &head;
  head.listen(this);
}

Engine::Engine(Pipeline& target, const wire::PipelinePlan& plan, GuessSources sources, const DecodeOptions& options)
    : options_(options), target_(target), cache_(make_cache(target, plan, options)), scheduler_(target_, options.batch) {
  slots_.push_back({std::move(sources), options.sequences, nullptr});
  const std::int32_t each = options.sequences.end - options.sequences.begin;
  while (slots_.size() < static_cast<std::size_t>(options.slots)) {
    const std::int32_t begin = slots_.back().sequences.end;
    slots_.push_back({slots_.front().sources.for_another_text(), {begin, begin + each}, nullptr});
  }
}

Engine::~Engine() {
  if (head_) head_->listen(nullptr);
}

RequestId Engine::submit(Request request, RequestObserver& observer) {
  if (request.prompt.empty()) throw UsageError("the prompt is empty");
  if (request.prompt.size() > static_cast<std::size_t>(options_.context))
    throw UsageError(fmt::format("the prompt has {} tokens, the context holds {}", request.prompt.size(), options_.context));
  waiting_.push_back(std::make_unique<RequestText>(options_, ++submitted_, std::move(request), observer));
  return submitted_;
}

RequestText* Engine::find(RequestId request) const {
  for (const Slot& slot : slots_) {
    if (slot.text && slot.text->id() == request) return slot.text.get();
  }
  return nullptr;
}

std::size_t Engine::begun() const {
  return static_cast<std::size_t>(std::ranges::count_if(slots_, [](const Slot& slot) { return slot.text != nullptr; }));
}

std::int32_t Engine::cells() const {
  std::vector<std::int32_t> sequences;
  for (const Slot& slot : slots_) {
    if (slot.text) sequences.push_back(slot.sequences.begin);
  }
  return target_.pipeline.cells().held_by(sequences);
}

bool Engine::idle() const { return waiting_.empty() && begun() == 0; }

/// Whether it can begin beside the texts that have begun: with room to grow for each, so that none must be paused soon. A text alone may
/// always begin.
bool Engine::fits(const RequestText& text) const {
  std::size_t cells = static_cast<std::size_t>(options_.guess_cells) + text.tokens().size() + kRoomToGrow;
  for (const Slot& slot : slots_) cells += slot.text ? slot.text->tokens().size() + kRoomToGrow : 0;
  return cells <= static_cast<std::size_t>(target_.pipeline.cells().cell_count()) || begun() == 0;
}

/// The longest beginning that a text shares with one that has begun, without its last token, which must be computed.
Engine::Beginning Engine::longest_beginning(const RequestText& text) const {
  Beginning longest;
  const auto own = std::span(text.tokens()).first(text.tokens().size() - 1);
  for (const Slot& slot : slots_) {
    if (!slot.text) continue;
    const auto& other = slot.text->tokens();
    const auto tokens = static_cast<std::size_t>(std::ranges::mismatch(own, other).in1 - own.begin());
    const std::size_t computed = std::min(tokens, slot.text->decoder().computed());
    if (tokens > longest.tokens) longest = {&slot, tokens, computed, cache_.has_all_of(other.size())};
  }
  return longest;
}

/// Whether a text should wait for another one that computes much of its beginning. Where that can only go on at checkpoints, it waits until
/// the other one has made them all.
bool Engine::should_wait(const RequestText& text, const Beginning& shared) const {
  if (shared.computed == shared.tokens || (!shared.all_there && !cache_.keeps_any())) return false;
  const std::size_t now = shared.all_there ? shared.computed : std::min(shared.tokens, cache_.longest(text.tokens()));
  return shared.tokens - now >= static_cast<std::size_t>(options_.batch);
}

/// Begins requests for which there are slots and cells. One that shares much with a prompt that is being computed waits for that.
bool Engine::begin_waiting() {
  bool anything = false;
  for (const Slot& slot : slots_) {
    if (slot.text) cache_.text_computed(slot.sequences.begin, slot.text->decoder().computed());
  }
  while (!waiting_.empty()) {
    const RequestText& next = *waiting_.front();
    const auto free = std::ranges::find_if(slots_, [](const Slot& slot) { return !slot.text; });
    if (free == slots_.end() || !fits(next)) break;
    const Beginning shared = next.reuses() ? longest_beginning(next) : Beginning{};
    if (should_wait(next, shared)) break;
    free->text = std::move(waiting_.front());
    waiting_.pop_front();
    CachedBeginning beginning;
    if (shared.computed > 0 && shared.all_there) {
      shared.other->text->decoder().send_operations();
      beginning = {shared.other->sequences.begin, static_cast<std::int32_t>(shared.computed)};
    }
    free->text->begin(target_, {free->sources, free->sequences, ++begun_, beginning}, cache_);
    anything = true;
  }
  return anything;
}

/// Removes earlier texts whose cells are needed now, and pauses texts if there are still too few.
void Engine::make_room() {
  do {
    std::int32_t cells = options_.guess_cells - std::min(options_.guess_cells, target_.guess_cells.held);
    for (const Slot& slot : slots_) cells += slot.text ? slot.text->decoder().cells_needed() : 0;
    cache_.make_room(cells);
    if (target_.pipeline.cells().free_cells() >= cells) return;
  } while (pause_youngest());
}

/// Unless it is the only one.
bool Engine::pause_youngest() {
  if (begun() < 2) return false;
  const auto id = [](const Slot& slot) { return slot.text ? slot.text->id() : 0; };
  Slot& slot = *std::ranges::max_element(slots_, {}, id);
  slot.text->decoder().leave();
  end_in_cache(slot);
  empty(slot);
  slot.text->pause();
  ++pauses_;
  waiting_.push_front(std::move(slot.text));
  return true;
}

void Engine::empty(const Slot& slot) {
  wire::Record record;
  record.operations.push_back(CacheOperation::remove(slot.sequences, {}));
  target_.pipeline.submit(std::move(record));
}

bool Engine::advance() {
  bool anything = begin_waiting();
  if (begun() == 0) {
    target_.batcher.distribute();  // results of texts that are over
    return anything;
  }
  make_room();  // texts that end may compute their last token
  if (receive()) {
    anything = true;
    if (begun() > 0) make_room();
  }
  return send() || anything;
}

/// Takes the results that have arrived; texts may end.
bool Engine::receive() {
  bool anything = false;
  for (Slot& slot : slots_) {
    if (!slot.text) continue;
    try {
      anything |= slot.text->decoder().receive();
    } catch (const RequestFailed& failed) {
      const std::unique_ptr<RequestText> text = release(slot, false);
      text->observer().on_failed(text->id(), failed.error);
      anything = true;
      continue;
    }
    if (slot.text && slot.text->decoder().finished()) finish(slot, slot.text->reason());
  }
  return anything;
}

bool Engine::send() {
  std::vector<Decoder*> texts;
  for (const Slot& slot : slots_) {
    if (slot.text) texts.push_back(&slot.text->decoder());
  }
  return !texts.empty() && scheduler_.send(texts);
}

/// Ends a text; what is computed of it stays in the cache. `whole`: its decoder has finished.
std::unique_ptr<RequestText> Engine::release(Slot& slot, bool whole) {
  Decoder& decoder = slot.text->decoder();
  decoder.leave();
  end_in_cache(slot);
  if (!cache_.has_checkpoints())
    cache_.keep(decoder.text(), decoder.computed(), slot.sequences.begin);
  else if (whole)
    keep_end(slot);
  if (slots_.size() > 1) empty(slot);
  return std::move(slot.text);
}

/// Checkpoints of a text that is left are those that have been computed.
void Engine::end_in_cache(const Slot& slot) {
  cache_.text_computed(slot.sequences.begin, slot.text->decoder().computed());
  cache_.text_ended(slot.sequences.begin);
}

/// A checkpoint at the end of a text. There is no state after the last token before that is computed, too.
void Engine::keep_end(const Slot& slot) {
  Decoder& decoder = slot.text->decoder();
  std::size_t tokens = decoder.computed();
  if (target_.pipeline.stage().model().has_states()) {
    if (!decoder.compute_end()) return;
    tokens = decoder.text().size();
  }
  cache_.keep_checkpoint(std::span(decoder.text()).first(tokens), slot.sequences.begin, true);
  cache_.text_computed(slot.sequences.begin, tokens);
}

/// The observer may submit the next request.
void Engine::finish(Slot& slot, FinishReason reason) {
  const std::unique_ptr<RequestText> text = release(slot, slot.text->decoder().finished());
  text->observer().on_finished(text->complete(reason));
}

void Engine::cancel(RequestId request) {
  const auto slot = std::ranges::find_if(slots_, [&](const Slot& s) { return s.text && s.text->id() == request; });
  if (slot != slots_.end()) {
    if (slot->text->telling()) return slot->text->interrupt();
    return finish(*slot, FinishReason::kInterrupted);
  }
  const auto found = std::ranges::find(waiting_, request, &RequestText::id);
  if (found == waiting_.end()) return;
  const std::unique_ptr<RequestText> text = std::move(*found);
  waiting_.erase(found);
  text->observer().on_finished(text->complete(FinishReason::kInterrupted));
}

void Engine::stop(RequestId request) {
  RequestText* const text = find(request);
  if (text && text->telling()) text->stop();
}

std::optional<PromptProgress> Engine::prompt_progress(RequestId request) const {
  const RequestText* const text = find(request);
  return text ? std::optional(text->progress()) : std::nullopt;
}

/// Ends the texts that have begun, or the first request in the queue.
void Engine::end_begun() {
  if (begun() == 0 && !waiting_.empty()) return cancel(waiting_.front()->id());
  for (Slot& slot : slots_) {
    if (slot.text) cancel(slot.text->id());
  }
}

/// Those of a text that is over are dropped.
void Engine::on_guesses(int rank, const wire::Guesses& guesses) {
  const auto slot = std::ranges::find_if(slots_, [&](const Slot& s) { return s.text && s.text->decoder().request() == guesses.request; });
  if (slot != slots_.end()) slot->text->decoder().on_guesses(rank, guesses);
}

void Engine::on_drafter_lost(int rank) {
  for (const Slot& slot : slots_) slot.text ? slot.text->decoder().drop_drafter(rank) : slot.sources.drop(rank);
}

bool Engine::awaits(int rank) const {
  return std::ranges::any_of(slots_, [&](const Slot& slot) { return slot.text && slot.text->decoder().awaits(rank); });
}

void Engine::run() {
  if (!head_) throw std::logic_error("an engine without a head is advanced by its caller");
  try {
    while (!idle()) {
      const bool heard = head_->step();
      if (!advance() && !heard) head_->rest();
    }
  } catch (const Interrupted&) {
    end_begun();
    throw;
  }
}

}  // namespace yamata
