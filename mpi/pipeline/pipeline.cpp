#include "mpi/pipeline/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "mpi/pipeline/result_parts.hpp"
#include "node/error.hpp"

namespace yamata {

Pipeline::Pipeline(Transport& transport, const PipelineRanks& ranks, std::unique_ptr<StageModel> first_stage, std::int32_t cells,
                   std::int32_t sequences)
    : transport_(transport),
      ranks_(ranks),
      model_(std::move(first_stage)),
      stage_(*model_, transport, ranks),
      cells_(cells, sequences),
      results_(ranks.stages.back().size()) {}

std::uint64_t Pipeline::submit(wire::Record record) {
  // The operations only free cells, so they may be applied before the check.
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
                       .feature_layers = record.feature_layers.size(),
                       .best = record.best,
                       .sums = record.sums,
                       .width = model_->width(),
                       .vocabulary = model_->vocabulary()});
  stage_.on_record(wire::encode(record));
  return record.run;
}

void Pipeline::cancel(std::span<const std::uint64_t> runs, CancelRoute route) {
  if (runs.empty()) return;
  const wire::Cancel direct{.runs = {runs.begin(), runs.end()}, .route = CancelRoute::kDirect, .job = ranks_.job};
  const bool backward = route == CancelRoute::kBackward && ranks_.count() > 1;
  for (const auto& stage : ranks_.stages) {
    if (backward && &stage != &ranks_.stages.front()) continue;
    for (const int rank : stage) {
      if (rank != ranks_.first()) transport_.send(rank, ranks_.channel.cancel, wire::encode(direct));
    }
  }
  const wire::Cancel passed_on{direct.runs, route, ranks_.job};
  if (backward) transport_.send(ranks_.stages.back().front(), ranks_.channel.cancel, wire::encode(passed_on));
  stage_.on_cancel(direct);
  for (const std::uint64_t run : runs) {
    if (run > completed_ && run <= submitted_) expected_[run - completed_ - 1].may_skip = true;
  }
}

std::optional<RunResult> Pipeline::take_result() {
  if (std::any_of(results_.begin(), results_.end(), [](const auto& queue) { return queue.empty(); })) return std::nullopt;
  std::vector<wire::Bytes> bytes;
  std::vector<wire::Rows> parts;
  for (auto& queue : results_) {
    bytes.push_back(std::move(queue.front()));
    queue.pop_front();
    parts.push_back(wire::decode_rows(bytes.back()));
  }
  const std::vector<int>& senders = ranks_.stages.back();
  if (expected_.empty())
    throw ClusterError(fmt::format("rank {} sent logits of run {}, which is not out", senders.front(), parts.front().run));
  const wire::ResultLimits limits = expected_.front();
  if (parts.size() == 1) wire::validate(parts.front(), limits, senders.front());
  for (std::size_t i = 0; parts.size() > 1 && i < parts.size(); ++i) wire::validate_part(parts[i], limits, i == 0, senders[i]);
  expected_.pop_front();
  ++completed_;
  return merge_parts(parts, limits, senders);
}

void Pipeline::on_message(Message message) {
  const std::vector<int>& senders = ranks_.stages.back();
  const auto sender = std::find(senders.begin(), senders.end(), message.from);
  if (message.tag != ranks_.channel.logits || sender == senders.end())
    throw ClusterError(fmt::format("rank {} sent the leader of its pipeline a message it does not take", message.from));
  results_[static_cast<std::size_t>(sender - senders.begin())].push_back(std::move(message.bytes));
}

}  // namespace yamata
