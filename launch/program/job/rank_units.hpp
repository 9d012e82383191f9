#pragma once
// The compute units of a rank.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/program/job/job_layout.hpp"
#include "launch/program/job/rank_location.hpp"
#include "launch/program/job/rank_models.hpp"
#include "launch/program/options/options.hpp"
#include "launch/program/planning/measurement_cache.hpp"
#include "launch/program/planning/thread_choice.hpp"
#include "launch/program/planning/unit_profile.hpp"
#include "launch/program/planning/units.hpp"
#include "mpi/protocol/wire.hpp"
#include "node/compute_unit.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/topology.hpp"

namespace yamata {

/// One unit for the target's stages, and one for those of drafts and heads; both may be the same. Each is made when it is needed.
class RankUnits {
 public:
  /// `batch`: the most tokens of a run. `patience`: how long a measurement may read from the disk.
  struct Limits {
    int batch = 64;
    std::chrono::milliseconds patience{30000};
  };
  /// The arguments outlive this.
  RankUnits(const ComputeOptions& options, const RankLocation& location, const RankModels& models, const JobLayout& layout, Limits limits);

  /// Finds the units and cores of this rank, after its models are open. Without -t, it may measure which number of threads is fastest.
  /// Throws UsageError if the flags name units that do not exist or do not fit a model.
  void find(cpu::Isa isa);
  /// Adds to a hello what computes on this rank, and its memory.
  void describe(wire::Hello& hello) const;

  /// The unit of a model's stages on this rank. If the rank was only measured as one of the target's and became a drafter, the unit that
  /// was measured ends first, because its memory is needed. If both are the same device, each unit has a stream and scratch memory of its
  /// own.
  ComputeUnit& of(std::size_t model);
  /// The target will be computed here.
  void keep_for_target() { computes_target_ = true; }

  /// Whether drafts and heads compute on units of their own.
  bool has_draft_units() const { return !draft_units_.empty(); }
  /// These units, as in --draft-units.
  std::string draft_names() const { return names_of(draft_units_); }
  /// Number of the target's first layers that a device computes alone, or wire::kLayersThatFit.
  int first_layers() const { return first_layers_; }
  /// Whether it computes the other layers, too, whose weights are copied to it for every run.
  bool copies_others() const { return first_layers_ > 0 && options_.offload; }
  /// Free bytes of that device; 0 if there is none.
  std::uint64_t first_layers_bytes() const;
  int threads() const { return static_cast<int>(threads_.cpus.size()); }

  /// For what a measured speed of the target holds.
  MeasurementKey speed_key() const;
  /// The same for the device that computes first_layers().
  MeasurementKey device_key() const;

 private:
  bool only_guesses() const;
  void find_units_of_flags();
  ThreadChoice choose_cpus() const;
  const std::vector<UnitSpec>& main_units() const;
  RankPlace place() const { return {topology_, location_.local_rank, location_.local_size, options_.numa}; }
  MeasurementKey key(std::size_t model, int threads, const std::string& units) const;
  bool drafts_beside_layers() const;
  const UnitSpec& device() const { return *std::ranges::find_if(units_, &UnitSpec::device); }
  std::unique_ptr<ComputeUnit> make_unit(const std::vector<UnitSpec>& units) const;
  std::optional<UnitProfile> kept_profile(const std::vector<UnitSpec>& units, AttentionCut cut) const;
  AttentionCut attention_cut(const std::vector<UnitSpec>& units) const;
  void begin_shares(SplitUnit& unit, const std::vector<UnitSpec>& units, AttentionCut cut) const;
  std::uint64_t shared_bytes() const;
  std::uint64_t available_bytes() const;

  const ComputeOptions& options_;
  const RankLocation& location_;
  const RankModels& models_;
  const JobLayout& layout_;
  const Limits limits_;
  cpu::Isa isa_ = cpu::Isa::kScalar;
  Topology topology_;
  std::vector<UnitSpec> units_;        // of this rank; empty: one unit with the rank's threads
  std::vector<UnitSpec> draft_units_;  // likewise, for drafts and heads; empty: the same
  std::string no_device_;              // why it has no device, though one was to compute some layers
  int first_layers_ = 0;
  ThreadChoice threads_;
  std::unique_ptr<ComputeUnit> unit_, draft_unit_;
  bool computes_target_ = false;  // whether this rank has a stage of the target
};

}  // namespace yamata
