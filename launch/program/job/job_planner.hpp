#pragma once
// Makes the plan of a job after all ranks have said hello, on rank 0.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/program/job/expected_text.hpp"
#include "launch/program/job/job_rank.hpp"
#include "launch/program/job/layout_chooser.hpp"
#include "mpi/decoding/decoder.hpp"
#include "mpi/planning/layer_split.hpp"
#include "mpi/planning/layout.hpp"

namespace yamata {

/// Divides the models among the ranks of the layout: which layers, how much cache, and whether weights are packed.
class JobPlanner {
 public:
  /// The arguments outlive this. The plan is for this text.
  JobPlanner(JobRank& rank, LayoutChooser& chooser, const ExpectedText& text);

  /// The plan. `groups`: what was benchmarked. Throws UsageError if the job does not fit into memory, and ModelError if a rank lacks the
  /// file of its part.
  wire::Start plan(const std::vector<wire::Hello>& hellos, std::span<const GroupTime> groups);
  /// The text as planned: with as many slots and cells as fit into memory. After the plan.
  const ExpectedText& text() const { return text_; }
  /// Texts that a model serves at a time: one if it is a draft that shares a unit with the target. After the plan.
  std::int32_t slots_of(const ModelPlace& place) const;
  /// Per rank, when its number of threads was measured, in seconds since the epoch; 0: not measured. After the plan.
  const std::vector<std::int64_t>& threads_measured_s() const { return threads_measured_s_; }
  /// A line with advice on the split of layers, based on `reports`, one per rank; empty if the split is good. After the job.
  std::string split_advice(const std::vector<wire::Report>& reports, std::size_t generated_tokens) const;

 private:
  Workload expected_work(const ExpectedText& text) const;
  wire::Start shapes(const DecodeOptions& decode) const;
  wire::PipelinePlan shape_of(const ModelPlace& place, const DecodeOptions& decode, const wire::Start& plan) const;
  void plan_ends(wire::PipelinePlan& pipeline, const DecodeOptions& decode, const wire::Start& plan) const;
  void find_capacities(const std::vector<wire::Hello>& hellos, const wire::PipelinePlan& shape);
  std::vector<std::vector<LayerRange>> target_splits(const std::vector<wire::Hello>& hellos) const;
  std::vector<LayerRange> draft_split(const ModelPlace& place) const;
  std::vector<ExpectedText> sizes() const;
  std::optional<wire::Start> fitting_plan(const std::vector<wire::Hello>& hellos);
  std::optional<wire::Start> plan_of_size(const std::vector<wire::Hello>& hellos, bool by_any_split);
  void plan_layers(wire::Start& plan, const std::vector<LayerRange>& target) const;
  /// Whether the job generates a text, which only grows.
  bool writes() const { return text_.prompt_tokens > 0; }
  bool reuses(const Hyperparameters& h) const;
  /// Cells of the target for texts.
  std::int32_t text_cells() const { return std::max(rank_.context(), text_.cache_tokens); }

  JobRank& rank_;
  LayoutChooser& chooser_;
  ExpectedText text_;
  const Workload work_;  // of the target
  std::vector<std::int64_t> threads_measured_s_;
  std::vector<std::uint64_t> capacities_;  // per rank, for weights and cache of the target
  std::uint64_t layer_cache_bytes_ = 0;    // of one layer of the target; the mean if layers have different windows
};

/// How this text is decoded, once the strategy is known.
DecodeOptions decode_options(const JobRank& rank, const ExpectedText& text);

}  // namespace yamata
