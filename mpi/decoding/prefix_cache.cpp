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

PrefixCache::PrefixCache(Pipeline& pipeline, SequenceRange sequences, Kind kind) : pipeline_(pipeline), kind_(kind) {
  const std::int32_t end = kind == Kind::kWindows ? std::min(sequences.end, sequences.begin + 1) : sequences.end;
  for (std::int32_t sequence = end; sequence-- > sequences.begin;) free_.push_back(sequence);
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

CachedBeginning PrefixCache::find(std::span<const std::int32_t> prompt, bool reuse) {
  std::size_t best = kept_.size(), tokens = 0;
  for (std::size_t i = 0; i < kept_.size() && reuse; ++i) {
    const std::size_t common = common_beginning(kept_[i].tokens, prompt.first(prompt.size() - 1));
    if (common < tokens || common == 0 || (kind_ != Kind::kCells && common < kept_[i].tokens.size())) continue;
    best = i;
    tokens = common;
  }
  if (best == kept_.size()) {
    if (kind_ == Kind::kWindows) make_room(pipeline_.cells().cell_count());  // layers with a window have no cells for two texts
    return {};
  }
  std::rotate(kept_.begin() + static_cast<std::ptrdiff_t>(best), kept_.begin() + static_cast<std::ptrdiff_t>(best) + 1, kept_.end());
  return {kept_.back().sequence, static_cast<std::int32_t>(tokens)};
}

void PrefixCache::keep(std::span<const std::int32_t> text, std::size_t computed, std::int32_t from, bool whole) {
  if (kind_ == Kind::kStates) return;
  const auto held = text.first(std::min(computed, text.size()));
  if (kind_ == Kind::kWindows) make_room(pipeline_.cells().cell_count());
  if (held.empty() || (kind_ == Kind::kWindows && !whole)) return;
  for (std::size_t i = kept_.size(); i-- > 0;) {
    const std::size_t common = common_beginning(kept_[i].tokens, held);
    if (common == held.size()) return;  // it is there, as the beginning of another one
    if (common == kept_[i].tokens.size()) drop(i);
  }
  if (free_.empty() && !kept_.empty()) drop(0);
  add(held, from, true);
}

/// In a free sequence, if there is one.
void PrefixCache::add(std::span<const std::int32_t> text, std::int32_t from, bool whole) {
  if (free_.empty()) return;
  const std::int32_t sequence = free_.back();
  free_.pop_back();
  send(CacheOperation::copy(from, {sequence, sequence + 1}, {0, static_cast<std::int32_t>(text.size())}));
  kept_.push_back({{text.begin(), text.end()}, sequence, whole});
}

void PrefixCache::keep_state(std::span<const std::int32_t> text, std::int32_t from, bool whole) {
  if (std::ranges::any_of(kept_, [&](const Kept& kept) { return std::ranges::equal(kept.tokens, text); })) return;
  if (free_.empty() && whole) {
    const auto beginning = std::ranges::find(kept_, false, &Kept::whole);
    if (!kept_.empty()) drop(beginning == kept_.end() ? 0 : static_cast<std::size_t>(beginning - kept_.begin()));
  }
  add(text, from, whole);
}

void PrefixCache::forget_beyond(std::span<const std::int32_t> text, std::size_t computed) {
  for (std::size_t i = kept_.size(); i-- > 0;) {
    const std::size_t length = kept_[i].tokens.size();
    if (length > computed && common_beginning(kept_[i].tokens, text) == length) drop(i);
  }
}

void PrefixCache::make_room(std::int32_t cells) {
  while (!kept_.empty() && pipeline_.cells().free_cells() < cells) drop(0);
}

}  // namespace yamata
