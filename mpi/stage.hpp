#pragma once
// One stage of the pipeline: takes the ordered stream of records, computes runs, passes their results on.
#include <deque>
#include <optional>

#include "mpi/transport.hpp"
#include "mpi/wire.hpp"
#include "src/model/stage_model.hpp"

namespace yamata {

/// A state machine: never blocks. The stage of rank k receives from k-1 and sends to k+1; the last sends logits to rank 0.
class Stage {
 public:
  Stage(StageModel& model, Transport& transport, int stages);
  /// Stops a computation that is still under way.
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Begins to bring the weights into memory; runs wait until it is done.
  void load();
  bool loaded() const { return loaded_; }
  /// What a heartbeat says of this stage.
  wire::Heartbeat heartbeat() const;

  /// An entry of the stream; it is forwarded at once and acted on in its turn.
  void on_record(wire::Bytes bytes);
  void on_activations(wire::Bytes bytes);
  /// Does what can be done now; true if anything happened.
  bool advance();
  wire::Activity activity() const;
  /// Seconds spent on runs.
  double busy_seconds() const { return model_.unit().busy_seconds() - load_seconds_; }

 private:
  bool begin_next();
  void apply(const wire::Record& record);
  void finish_run();

  StageModel& model_;
  Transport& transport_;
  const int next_;  // rank of the next stage, or -1
  std::deque<wire::Record> records_;
  std::deque<wire::Bytes> activations_;
  std::optional<wire::Record> running_;
  std::uint64_t runs_ended_ = 0;
  bool loading_ = false, loaded_ = false;
  std::uint64_t load_began_ = 0;  // the unit's progress then
  double load_seconds_ = 0;
  std::atomic<bool> stop_{false};
};

}  // namespace yamata
