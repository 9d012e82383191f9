#pragma once
// One rank of a job: its models, its compute units, and the parts of models that it computes.
#include <atomic>
#include <cstdint>

#include "launch/program/job/job_layout.hpp"
#include "launch/program/job/rank_location.hpp"
#include "launch/program/job/rank_models.hpp"
#include "launch/program/job/rank_units.hpp"
#include "launch/program/job/speed_probe.hpp"
#include "launch/program/options/options.hpp"
#include "mpi/cluster/dispatcher.hpp"
#include "mpi/cluster/group_benchmark.hpp"
#include "mpi/cluster/weights_fetch.hpp"
#include "mpi/transport/transport.hpp"

namespace yamata {

/// What every rank does, whatever leads it: on rank 0 that is a Job, elsewhere a Worker.
class JobRank {
 public:
  /// `transport`: to tell which ranks are on other hosts. Throws UsageError if the flags do not fit the number of ranks.
  JobRank(const JobOptions& options, const Transport& transport, RankLocation location);
  JobRank(const JobRank&) = delete;
  JobRank& operator=(const JobRank&) = delete;

  /// The models that open() must open and whose files this machine lacks, so that they are fetched. On rank 0 none: there it is an error.
  std::vector<std::int32_t> absent_models() const { return models_.absent(layout_, location_.rank); }
  /// The files of such a model. Throws ModelError if this machine cannot keep them.
  void take_files(std::int32_t model, fetch::ModelShape shape) { models_.take_files(static_cast<std::size_t>(model), std::move(shape)); }
  /// What must be fetched before open().
  std::vector<FetchTask> heads_to_fetch() const { return models_.heads_to_fetch(); }
  /// What must be fetched before this rank's stages of a plan are made.
  std::vector<FetchTask> weights_to_fetch(const wire::Start& plan) const { return models_.weights_to_fetch(plan, location_.rank); }
  /// Opens the models that this rank needs or may have to hold, finds its units, and describes the rank. Call it first, once.
  wire::Hello open();
  /// Makes stages on this rank; they share its compute units.
  StageFactory stage_factory();
  /// Makes layers of the target for a group benchmark; likewise.
  LayerFactory layer_factory();
  /// Measures this rank's speed; empty if no measurement is needed.
  wire::Measured measure(const std::atomic<bool>& stop) { return speed_.measure(stop); }

  /// The options with the strategy decided.
  const JobOptions& options() const { return options_; }
  const RankLocation& location() const { return location_; }
  const RankModels& models() const { return models_; }
  const RankUnits& units() const { return units_; }
  /// Changed only by rank 0, which plans.
  JobLayout& layout() { return layout_; }
  const JobLayout& layout() const { return layout_; }
  /// Tokens of context: -c, or the target's own context length up to the default; 0 if that is unknown here, as this rank has no target.
  int context() const;

 private:
  const JobOptions options_;
  const RankLocation location_;
  JobLayout layout_;
  RankModels models_;
  RankUnits units_;
  SpeedProbe speed_;
};

}  // namespace yamata
