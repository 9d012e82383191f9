#include "mpi/decoding/prefix_cache.hpp"

#include <algorithm>
#include <utility>

namespace yamata {
namespace {

std::size_t common_beginning(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const std::size_t most = std::min(a.size(), b.size());
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first - a.begin());
}

}  // namespace

PrefixCache::PrefixCache(Pipeline& pipeline, SequenceRange sequences, Kind kind, std::int32_t window)
    : pipeline_(pipeline), kind_(kind), window_(static_cast<std::size_t>(window)) {
  for (std::int32_t sequence = sequences.end; sequence-- > sequences.begin;) free_.push_back(sequence);
}

void PrefixCache::send(const CacheOperation& operation) {
  wire::Record record;
  record.operations.push_back(operation);
  pipeline_.submit(std::move(record));
}

void PrefixCache::drop(std::size_t index) {
  const std::int32_t sequence = kept_[index].sequence;
  send(CacheOperation::remove({sequence, sequence + 1}, {}));
  free_.push_back(sequence);
  kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(index));
}

PrefixCache::Beginning PrefixCache::best(std::span<const std::int32_t> prompt) const {
  Beginning best{kept_.size()};
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const std::size_t all = kept_[i].tokens.size(), common = common_beginning(kept_[i].tokens, prompt.first(prompt.size() - 1));
    if (common < best.tokens || common == 0 || kept_[i].computed_in != kNone || (common < all && !has_all_of(all))) continue;
    best = {i, common};
  }
  return best;
}

CachedBeginning PrefixCache::find(std::span<const std::int32_t> prompt, bool reuse) {
  const Beginning found = reuse ? best(prompt) : Beginning{};
  if (found.tokens == 0) return {};
  const auto used = kept_.begin() + static_cast<std::ptrdiff_t>(found.index);
  std::rotate(used, used + 1, kept_.end());
  return {kept_.back().sequence, static_cast<std::int32_t>(found.tokens)};
}

void PrefixCache::keep(std::span<const std::int32_t> text, std::size_t computed, std::int32_t from) {
  const auto held = text.first(std::min(computed, text.size()));
  if (held.empty()) return;
  for (std::size_t i = kept_.size(); i-- > 0;) {
    const std::size_t common = common_beginning(kept_[i].tokens, held);
    if (common == held.size()) return;  // it is there, as the beginning of another one
    if (common == kept_[i].tokens.size()) drop(i);
  }
  if (free_.empty() && !kept_.empty()) drop(0);
  add({.tokens = {held.begin(), held.end()}, .sequence = kNone}, from);
}

/// In a free sequence, if there is one.
void PrefixCache::add(Kept kept, std::int32_t from) {
  if (free_.empty()) return;
  kept.sequence = free_.back();
  free_.pop_back();
  send(CacheOperation::copy(from, {kept.sequence, kept.sequence + 1}, {0, static_cast<std::int32_t>(kept.tokens.size())}));
  kept_.push_back(std::move(kept));
}

void PrefixCache::keep_checkpoint(std::span<const std::int32_t> text, std::int32_t from, bool whole) {
  if (std::ranges::any_of(kept_, [&](const Kept& kept) { return std::ranges::equal(kept.tokens, text); })) return;
  if (free_.empty() && whole && !kept_.empty()) {
    const auto beginning = std::ranges::find(kept_, false, &Kept::whole);
    drop(beginning == kept_.end() ? 0 : static_cast<std::size_t>(beginning - kept_.begin()));
  }
  add({.tokens = {text.begin(), text.end()}, .sequence = kNone, .whole = whole, .computed_in = from}, from);
}

void PrefixCache::text_computed(std::int32_t sequence, std::size_t tokens) {
  for (Kept& kept : kept_) {
    if (kept.computed_in == sequence && kept.tokens.size() <= tokens) kept.computed_in = kNone;
  }
}

void PrefixCache::text_ended(std::int32_t sequence) {
  for (std::size_t i = kept_.size(); i-- > 0;) {
    if (kept_[i].computed_in == sequence) drop(i);
  }
}

void PrefixCache::make_room(std::int32_t cells) {
  while (!kept_.empty() && pipeline_.cells().free_cells() < cells) drop(0);
}

}  // namespace yamata
