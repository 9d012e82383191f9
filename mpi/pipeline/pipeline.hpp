#pragma once
// The leader's side of one model's stages: sends runs, receives their logits, and has a copy of every stage's cell table.
#include <deque>
#include <memory>
#include <optional>

#include "mpi/pipeline/run_result.hpp"
#include "mpi/pipeline/stage.hpp"
#include "mpi/protocol/validate.hpp"

namespace yamata {

/// A state machine on the pipeline's first rank, which holds its first stage.
class Pipeline {
 public:
  Pipeline(Transport& transport, const PipelineRanks& ranks, std::unique_ptr<StageModel> first_stage, std::int32_t cells,
           std::int32_t sequences);

  /// Sends cache operations and, if there are tokens, a run. Returns the run's id (0: none). Throws UsageError, before sending anything, if
  /// the cache cannot hold the run.
  std::uint64_t submit(wire::Record record);
  /// Tells every stage that these runs are no longer needed. Their results still arrive, empty or not.
  void cancel(std::span<const std::uint64_t> runs, CancelRoute route = CancelRoute::kDirect);
  /// The next result that has arrived. Each run has one, with the run's id.
  std::optional<RunResult> take_result();
  std::size_t outstanding() const { return submitted_ - completed_; }
  /// The id of the run that is submitted next.
  std::uint64_t next_run() const { return submitted_ + 1; }

  /// Handles a message of this pipeline's channel.
  void on_message(Message message);
  /// Advances the first stage; true if anything happened.
  bool advance() { return stage_.advance(); }
  Stage& stage() { return stage_; }
  const Stage& stage() const { return stage_; }
  const PipelineRanks& ranks() const { return ranks_; }
  const CellTable& cells() const { return cells_; }

 private:
  Transport& transport_;
  const PipelineRanks ranks_;
  std::unique_ptr<StageModel> model_;
  Stage stage_;
  CellTable cells_;  // the state of every stage's table after all sent records
  BatchCells batch_cells_;
  std::uint64_t submitted_ = 0, completed_ = 0;
  std::deque<wire::ResultLimits> expected_;       // of the runs in flight
  std::vector<std::deque<wire::Bytes>> results_;  // per rank of the last stage
};

}  // namespace yamata
