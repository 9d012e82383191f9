#pragma once
// One stage of a pipeline: receives the ordered stream of records, computes runs, passes their results on.
#include <deque>
#include <optional>
#include <set>

#include "mpi/protocol/channel.hpp"
#include "mpi/protocol/wire.hpp"
#include "src/model/stage_model.hpp"
#include "src/sampling/best_logits.hpp"
#include "src/speculation/step_cost.hpp"

namespace yamata {

/// A state machine that never blocks. Records and activations go to the next rank, logits from the last stage to the leader. A cancelled
/// run is skipped if it has not started, else it is stopped after the current operation. An empty result is passed on instead, and the cell
/// table changes as if the run had been computed (PipeInfer, "early cancellation"). All ranks that share a stage receive the same records
/// in the same order, and stop a run together or not at all.
class Stage {
 public:
  Stage(StageModel& model, Transport& transport, const PipelineRanks& ranks);
  /// Stops a running computation.
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Starts to load the weights into memory; runs wait until this is done.
  void load();
  bool loaded() const { return loaded_; }
  /// This stage's part of a heartbeat.
  wire::Heartbeat heartbeat() const;

  /// An entry of the stream. It is forwarded at once, and processed in order.
  void on_record(wire::Bytes bytes);
  void on_activations(wire::Bytes bytes);
  /// Passes a backward cancellation on at once, also while this stage computes.
  void on_cancel(const wire::Cancel& cancel);
  /// Does what is possible now; true if anything happened.
  bool advance();
  wire::Activity activity() const;
  /// The number of records that have arrived but not started.
  std::size_t queued() const { return records_.size(); }
  bool computing() const { return running_.has_value(); }
  StageModel& model() { return model_; }
  /// Ranks that share its layers.
  int members() const { return model_.members(); }

  struct Counters {
    std::uint64_t runs = 0, skipped = 0, tokens_skipped = 0;
    double busy_s = 0;                ///< spent on runs
    std::uint64_t feature_bytes = 0;  ///< sent
    CopiedWeights copied{};           ///< by its runs
  };
  const Counters& counters() const { return counters_; }
  /// The growth of its runs' time with their rows.
  const StepCost& cost() const { return cost_; }
  /// Recent time of a row of a prompt in its wider runs, or of such a row beside the last tokens of texts; 0: there was none.
  double prompt_row_s() const { return prompt_row_s_; }
  Trace& trace() { return trace_; }
  const Trace& trace() const { return trace_; }
  /// Fills in this stage's part of the final report.
  void describe(wire::Report& report) const;

 private:
  struct Running {
    wire::Record record;
    Clock::time_point began;
    std::vector<float> features;  // of the layers of earlier stages
    CopiedWeights copied_before;
  };
  /// The rank whose records and activations come here.
  int before() const { return ranks_.before(transport_.rank()); }
  bool begin_next();
  bool skips(const wire::Record& record) const;
  void compute(wire::Record record);
  void learn_cost(const wire::Record& record, double seconds);
  void finish_run();
  void pass_back(const wire::Cancel& cancel);
  void send_skipped(std::uint64_t run);
  void send_result(const Running& running);
  void send_logits(const wire::Record& record, std::span<const float> features);
  BestLogits best_of_run(std::size_t count) const;
  void send(const wire::Rows& rows);
  std::size_t send_all(const std::vector<int>& ranks, Tag tag, const wire::Bytes& bytes);
  void count_skipped(const wire::Record& record);

  StageModel& model_;
  Transport& transport_;
  const PipelineRanks ranks_;
  const bool last_;
  std::deque<wire::Record> records_;
  std::deque<wire::Bytes> activations_;
  std::set<std::uint64_t> cancelled_;  // runs that have not arrived yet
  BatchCells skipped_cells_;
  std::optional<Running> running_;
  Counters counters_;
  StepCost cost_;
  double prompt_row_s_ = 0;
  Trace trace_;
  std::uint64_t ended_ = 0, last_run_ = 0;  // ids of the latest run that has ended, and of the latest that has arrived
  bool load_waits_ = false, loading_ = false, loaded_ = false;
  std::uint64_t load_began_ = 0;  // the unit's progress at the start of the load
  std::atomic<bool> stop_{false};
};

}  // namespace yamata
