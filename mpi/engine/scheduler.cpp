#include "mpi/engine/scheduler.hpp"

#include <algorithm>
#include <vector>

namespace yamata {
namespace {

constexpr std::int32_t kFewestPromptRows = 16;  // of a run: fewer rows take hardly less time

/// The number of texts that grow.
std::int32_t growing(std::span<Decoder* const> texts) {
  return static_cast<std::int32_t>(std::ranges::count_if(texts, [](const Decoder* text) { return text->prefilled(); }));
}

}  // namespace

/// If one stage is the whole pipeline, the texts of its run are ready only when its result has arrived: then all go on together.
bool Scheduler::may_send(int depth) const {
  const Pipeline& pipeline = target_.pipeline;
  if (pipeline.ranks().count() == 1) return pipeline.outstanding() == 0;
  return !pipeline.stage().computing() && pipeline.stage().queued() == 0 && static_cast<int>(pipeline.outstanding()) < depth;
}

/// How many runs are in flight at most. A wider run takes longer on each stage, so fewer are needed to hide the links' latency.
int Scheduler::depth(std::span<Decoder* const> texts) const {
  const int stages = target_.pipeline.ranks().count();
  return target_.speed.depth(std::max(1, (growing(texts) + stages - 1) / stages));
}

bool Scheduler::send(std::span<Decoder* const> texts) {
  if (texts.size() == 1) return texts.front()->send();
  bool anything = false;
  for (const int runs = depth(texts); may_send(runs); anything = true) {
    if (!send_text(texts, runs) && !send_guesses(texts)) break;
  }
  return anything;
}

bool Scheduler::send_text(std::span<Decoder* const> texts, int depth) {
  target_.batcher.collect();
  bool anything = add_roots(texts, depth);
  anything |= add_prompts(texts);
  target_.batcher.send();
  for (Decoder* const text : texts) text->tell_prompt_sent();
  return anything;
}

bool Scheduler::add_roots(std::span<Decoder* const> texts, int depth) {
  std::vector<Decoder*> ready;
  std::ranges::copy_if(texts, std::back_inserter(ready), [](const Decoder* text) { return text->has_root(); });
  if (ready.empty()) return false;
  std::ranges::stable_sort(ready, {}, &Decoder::grown_at);
  const auto most = static_cast<std::size_t>((growing(texts) + depth - 1) / depth);
  ready.resize(std::min(ready.size(), most));
  bool anything = false;
  for (Decoder* text : ready) {
    const auto others = std::max<std::int32_t>(target_.batcher.rows(), static_cast<std::int32_t>(ready.size()) - 1);
    anything |= text->send_root(others);
  }
  return anything;
}

/// The texts have their turns one after another; short prompts share a run.
bool Scheduler::add_prompts(std::span<Decoder* const> texts) {
  const std::int32_t before = target_.batcher.rows(), most = std::min(before + prompt_rows(growing(texts)), std::max(batch_, before + 1));
  const std::uint64_t first = turn_;
  bool anything = false;
  for (std::size_t i = 0; i < texts.size() && target_.batcher.rows() < most; ++i) {
    Decoder* const text = texts[(first + i) % texts.size()];
    if (!text->has_prompt()) continue;
    text->send_prompt(most - target_.batcher.rows());
    turn_ = first + i + 1;
    anything = true;
  }
  return anything;
}

/// As many rows as lengthen a run of the texts that grow to about twice its time.
std::int32_t Scheduler::prompt_rows(std::int32_t growing) const {
  if (growing == 0) return batch_;
  const Stage& stage = target_.pipeline.stage();
  const int stages = target_.pipeline.ranks().count();
  const double run_s = stage.cost().run_s((growing + stages - 1) / stages), row_s = stage.prompt_row_s();
  if (run_s <= 0 || row_s <= 0) return batch_;
  return std::clamp(static_cast<std::int32_t>(run_s / row_s), std::min(batch_, kFewestPromptRows), batch_);
}

bool Scheduler::send_guesses(std::span<Decoder* const> texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[(turn_ + i) % texts.size()]->send_guesses()) continue;
    turn_ += i + 1;
    return true;
  }
  return false;
}

}  // namespace yamata
