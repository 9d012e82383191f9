#pragma once
// Continuous batching (Orca, OSDI 2022): the rows of a run may be of several texts, each of which gets its own rows of the result.
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "mpi/pipeline/pipeline.hpp"

namespace yamata {

class PipelineLane;

/// Several texts use one pipeline, each through a lane of its own. A text's tokens are the same whoever shares its runs: no row's result
/// depends on the others.
class Batcher {
 public:
  /// The pipeline outlives this, and this outlives its lanes.
  explicit Batcher(Pipeline& pipeline) : pipeline_(pipeline) {}
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  Pipeline& pipeline() { return pipeline_; }
  const Pipeline& pipeline() const { return pipeline_; }

  /// From now on until send(), what lanes submit is collected into one run, as far as it may be in one.
  void collect() { collects_ = true; }
  /// Sends what has been collected.
  void send();
  /// Gives lanes the results that have arrived, which they take. They call this, too.
  void distribute();
  /// Rows collected so far.
  std::int32_t rows() const { return pending_ ? static_cast<std::int32_t>(pending_->record.tokens.size()) : 0; }

 private:
  friend class PipelineLane;
  /// Half-open ranges of a run's tokens, rows of logits and rows of features.
  struct Part {
    PipelineLane* lane;  // null: its text is over
    Interval tokens, logits, features;
    bool cancelled = false;
  };
  struct Run {
    std::uint64_t id = 0;
    std::vector<Part> parts;
  };
  struct Pending {
    wire::Record record;
    std::vector<Part> parts;
  };

  std::uint64_t submit(PipelineLane& lane, wire::Record record);
  void send_pending();
  bool may_join(const PipelineLane& lane, const wire::Record& record) const;
  static void join(Pending& run, PipelineLane& lane, wire::Record record);
  void cancel(const PipelineLane& lane, std::span<const std::uint64_t> runs, CancelRoute route);
  void leave(const PipelineLane& lane);

  Pipeline& pipeline_;
  bool collects_ = false;
  std::optional<Pending> pending_;
  std::deque<Run> runs_;  // whose results have not arrived
};

/// One text's end of a pipeline. If it is destroyed, the results of its runs are dropped.
class PipelineLane {
 public:
  explicit PipelineLane(Batcher& batcher) : batcher_(batcher) {}
  ~PipelineLane() { batcher_.leave(*this); }
  PipelineLane(const PipelineLane&) = delete;
  PipelineLane& operator=(const PipelineLane&) = delete;

  const CellTable& cells() const { return batcher_.pipeline().cells(); }
  /// Runs of all texts in flight.
  std::size_t outstanding() const { return batcher_.pipeline().outstanding(); }
  /// Sends cache operations and, if there are tokens, a run, or its part of one. Returns the run's id (0: none), of which this lane has no
  /// other part. Throws UsageError if the cache cannot hold the run.
  std::uint64_t submit(wire::Record record) { return batcher_.submit(*this, std::move(record)); }
  /// This lane no longer needs these runs. Their results still arrive. The stages skip a run that no lane needs.
  void cancel(std::span<const std::uint64_t> runs, CancelRoute route) { batcher_.cancel(*this, runs, route); }
  /// The next result that has arrived: the rows of this lane.
  std::optional<RunResult> take_result();

 private:
  friend class Batcher;
  Batcher& batcher_;
  std::deque<RunResult> results_;
};

}  // namespace yamata
