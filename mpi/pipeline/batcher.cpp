#include "mpi/pipeline/batcher.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace yamata {
namespace {

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// The rows `part` of `rows` rows of equal length.
template <class T>
std::vector<T> rows_of(const std::vector<T>& all, Interval part, std::int64_t rows) {
  if (all.empty() || rows == 0) return {};
  const auto row = static_cast<std::int64_t>(all.size()) / rows;
  return {all.begin() + part.begin * row, all.begin() + part.end * row};
}

Interval behind(std::size_t begin, std::size_t count) {
  return {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(begin + count)};
}

}  // namespace

/// Rows of which equally many logits are wanted, or some of each, or none: the others would cost the links too much.
bool Batcher::may_join(const PipelineLane& lane, const wire::Record& record) const {
  const wire::Record& run = pending_->record;
  const bool logits = !run.logit_rows.empty() && !record.logit_rows.empty();
  return (!logits || ((run.best == 0) == (record.best == 0) && run.sums == record.sums)) && run.feature_layers == record.feature_layers &&
         run.features.empty() == record.features.empty() &&
         static_cast<std::int32_t>(run.tokens.size() + record.tokens.size()) <= pipeline_.cells().free_cells() &&
         std::ranges::none_of(pending_->parts, [&](const Part& part) { return part.lane == &lane; });
}

void Batcher::join(Pending& run, PipelineLane& lane, wire::Record record) {
  wire::Record& all = run.record;
  const auto first = static_cast<std::int32_t>(all.tokens.size());
  run.parts.push_back({&lane, behind(all.tokens.size(), record.tokens.size()), behind(all.logit_rows.size(), record.logit_rows.size()),
                       behind(all.feature_rows.size(), record.feature_rows.size())});
  if (first == 0) {
    all = std::move(record);
    return;
  }
  if (!record.logit_rows.empty()) {
    all.best = all.logit_rows.empty() ? record.best : std::max(all.best, record.best);
    all.sums = record.sums;
  }
  for (Placement& token : record.placements) token.parent += token.parent >= 0 ? first : 0;
  for (std::int32_t& row : record.logit_rows) row += first;
  for (std::int32_t& row : record.feature_rows) row += first;
  append(all.operations, record.operations);
  append(all.tokens, record.tokens);
  append(all.features, record.features);
  append(all.placements, record.placements);
  append(all.logit_rows, record.logit_rows);
  append(all.feature_rows, record.feature_rows);
  all.likely_row = -1;  // only layers with states ask for it
}

std::uint64_t Batcher::submit(PipelineLane& lane, wire::Record record) {
  if (pending_ && (!record.has_run() || !may_join(lane, record))) send_pending();
  if (!record.has_run()) return pipeline_.submit(std::move(record));
  Pending alone;
  join(pending_ ? *pending_ : alone, lane, std::move(record));
  if (!pending_) pending_ = std::move(alone);
  const std::uint64_t id = pipeline_.next_run();
  if (!collects_) send_pending();
  return id;
}

void Batcher::send_pending() {
  Pending run = *std::exchange(pending_, std::nullopt);
  const std::uint64_t id = pipeline_.submit(std::move(run.record));
  runs_.push_back({id, std::move(run.parts)});
}

void Batcher::send() {
  collects_ = false;
  if (pending_) send_pending();
}

void Batcher::cancel(const PipelineLane& lane, std::span<const std::uint64_t> runs, CancelRoute route) {
  std::vector<std::uint64_t> unneeded;
  for (const std::uint64_t id : runs) {
    const auto run = std::ranges::lower_bound(runs_, id, {}, &Run::id);
    if (run == runs_.end() || run->id != id) continue;
    for (Part& part : run->parts) part.cancelled |= part.lane == &lane || part.lane == nullptr;
    if (std::ranges::all_of(run->parts, &Part::cancelled)) unneeded.push_back(id);
  }
  pipeline_.cancel(unneeded, route);
}

void Batcher::distribute() {
  while (auto result = pipeline_.take_result()) {
    if (runs_.empty() || runs_.front().id != result->run) continue;  // sent by somebody else
    const Run run = std::move(runs_.front());
    runs_.pop_front();
    const Part& last = run.parts.back();
    result->rows = static_cast<std::int32_t>(last.tokens.end);
    if (run.parts.size() == 1) {
      if (last.lane) last.lane->results_.push_back(std::move(*result));
      continue;
    }
    for (const Part& part : run.parts) {
      if (!part.lane) continue;
      part.lane->results_.push_back({.run = result->run,
                                     .rows = std::exchange(result->rows, 0),
                                     .skipped = result->skipped,
                                     .logits = rows_of(result->logits, part.logits, last.logits.end),
                                     .tokens = rows_of(result->tokens, part.logits, last.logits.end),
                                     .vocabulary = result->vocabulary,
                                     .sums = rows_of(result->sums, part.logits, last.logits.end),
                                     .features = rows_of(result->features, part.features, last.features.end)});
    }
  }
}

void Batcher::leave(const PipelineLane& lane) {
  const auto forget = [&](std::vector<Part>& parts) {
    for (Part& part : parts) {
      if (part.lane == &lane) part.lane = nullptr;
    }
  };
  for (Run& run : runs_) forget(run.parts);
  if (pending_) forget(pending_->parts);
}

std::optional<RunResult> PipelineLane::take_result() {
  batcher_.distribute();
  if (results_.empty()) return std::nullopt;
  RunResult result = std::move(results_.front());
  results_.pop_front();
  return result;
}

}  // namespace yamata
