#include "mpi/pipeline/pipeline.hpp"

#include <fmt/format.h>

#include "node/error.hpp"
#include "src/sampling/best_logits.hpp"

namespace yamata {

std::vector<float> RunResult::row(std::size_t i, std::size_t rows) const {
  const std::size_t length = logits.size() / rows;
  const auto values = std::span(logits).subspan(i * length, length);
  if (tokens.empty()) return {values.begin(), values.end()};
  return spread_logits(std::span(tokens).subspan(i * length, length), values, vocabulary);
}

Pipeline::Pipeline(Transport& transport, const PipelineRanks& ranks, std::unique_ptr<StageModel> first_stage, std::int32_t cells,
                   std::int32_t sequences)
    : transport_(transport), ranks_(ranks), model_(std::move(first_stage)), stage_(*model_, transport, ranks), cells_(cells, sequences) {}

std::uint64_t Pipeline::submit(wire::Record record) {
  // The operations free cells at most: they are safe to do before the check.
  for (const CacheOperation& operation : record.operations) apply(operation, cells_);
  if (!record.has_run()) {
    if (!record.operations.empty()) stage_.on_record(wire::encode(record));
    return 0;
  }
  if (static_cast<std::int32_t>(record.tokens.size()) > cells_.free_cells()) {
    throw UsageError(fmt::format("the context of {} tokens is full; raise -c or ask for fewer tokens", cells_.cell_count()));
  }
  record.run = ++submitted_;
  cells_.place(record.placements, batch_cells_);
  expected_.push_back({.run = record.run,
                       .logit_rows = record.logit_rows.size(),
                       .feature_rows = record.feature_rows.size(),
                       .best = record.best,
                       .width = model_->width(),
                       .vocabulary = model_->vocabulary()});
  stage_.on_record(wire::encode(record));
  return record.run;
}

void Pipeline::cancel(std::span<const std::uint64_t> runs) {
  if (runs.empty()) return;
  for (const int rank : ranks_.ranks) {
    if (rank != ranks_.first()) transport_.send(rank, ranks_.channel.cancel, wire::encode_cancel(runs));
  }
  stage_.on_cancel(runs);
  for (const std::uint64_t run : runs) {
    if (run > completed_ && run <= submitted_) expected_[run - completed_ - 1].may_skip = true;
  }
}

std::optional<RunResult> Pipeline::take_result() {
  if (logits_.empty()) return std::nullopt;
  const wire::Bytes bytes = std::move(logits_.front());
  logits_.pop_front();
  const wire::Rows rows = wire::decode_rows(bytes);
  if (expected_.empty()) throw ClusterError(fmt::format("rank {} sent logits of run {}, which is not out", ranks_.last(), rows.run));
  wire::validate(rows, expected_.front(), ranks_.last());
  expected_.pop_front();
  ++completed_;
  return RunResult{.run = rows.run,
                   .skipped = rows.skipped,
                   .logits = {rows.values.begin(), rows.values.end()},
                   .tokens = {rows.tokens.begin(), rows.tokens.end()},
                   .vocabulary = rows.vocabulary,
                   .features = {rows.features.begin(), rows.features.end()}};
}

void Pipeline::on_message(Message message) {
  if (message.tag != ranks_.channel.logits)
    throw ClusterError(fmt::format("rank {} sent the leader of its pipeline a message it does not take", message.from));
  logits_.push_back(std::move(message.bytes));
}

}  // namespace yamata
