#pragma once
// One process of a job: its rank, its share of its machine, and the models that it has opened.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/program/input/interrupts.hpp"
#include "launch/program/options/options.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/planning/group_benchmarks.hpp"
#include "launch/program/planning/kept_forecasts.hpp"
#include "launch/program/planning/layout_choice.hpp"
#include "launch/program/planning/measurement_cache.hpp"
#include "launch/program/planning/thread_choice.hpp"
#include "mpi/cluster/head.hpp"
#include "mpi/decoding/decoder.hpp"
#include "mpi/engine/request.hpp"
#include "mpi/planning/layer_split.hpp"
#include "mpi/planning/layout.hpp"
#include "node/compute_unit.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/topology.hpp"
#include "src/draft_heads/draft_heads_file.hpp"
#include "src/model/layer_probe.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

class Job {
 public:
  Job(const JobOptions& options, Transport& transport, std::string host, int local_rank, int local_size);

  /// Opens the models that this rank needs or may have to hold, and describes the rank.
  wire::Hello open();
  /// The target, on rank 0.
  const gguf::File& file() const { return models_[0]->file; }
  const Hyperparameters& hyperparameters() const { return models_[0]->h; }
  /// A draft's file, on rank 0; `index` begins at 1.
  const gguf::File& draft_file(std::size_t index) const { return models_[index]->file; }
  /// Whether a model of the layout is draft heads, which read the target's hidden states.
  bool is_draft_heads(int model) const { return static_cast<std::size_t>(model) >= models_.size(); }
  /// The name of a draft or of heads, for users.
  std::string source_name(int model) const;
  /// The layers whose features these heads read; empty: it is a draft. On rank 0, after open.
  std::vector<std::int32_t> feature_layers(int model) const;
  /// Whether drafts and heads compute on units of their own. After open.
  bool has_draft_units() const { return !draft_units_.empty(); }
  /// Cost of a token in that model relative to the target: the ratio of their bytes. On rank 0.
  double relative_cost(int model) const;
  const JobOptions& options() const { return options_; }
  Transport& transport() { return transport_; }
  /// A file's text; "-": that of standard input. While it waits for standard input, the other ranks are told that this one is alive.
  std::string read_text_file(const std::string& path);
  const std::string& host() const { return host_; }
  /// Which rank holds what, and the strategy. If the flags leave it open, known after the job has started.
  const Layout& layout() const { return layout_; }
  Strategy strategy() const { return strategy_; }
  /// The reason for it; nothing if the flags determined it.
  const std::optional<LayoutChoice>& layout_choice() const { return layout_choice_; }

  /// A draft was given, but no rank can hold it.
  bool gave_up_drafting() const { return gave_up_drafting_; }

  /// Makes stages on this rank; they share its compute unit.
  StageFactory stage_factory();
  /// Measures this rank's speed; empty if no measurement is needed. After open.
  wire::Measured measure(const std::atomic<bool>& stop);
  /// Makes layers of the target for a group benchmark; likewise.
  LayerFactory layer_factory();
  /// Bytes of model files whose pages this process has mapped in.
  std::uint64_t mapped_bytes() const;
  /// Tokens of context: -c, or the model's own context length up to the default.
  int context() const;
  /// A line with advice on the split of layers, based on `reports`, one per rank; empty if the split is good. After lead.
  std::string split_advice(const std::vector<wire::Report>& reports, std::size_t generated_tokens) const;
  /// Keeps for later plans the acceptance of the draft's first choices in a text, what its evaluations cost, and how fast a chosen layout
  /// was, relative to its forecast; `reports`: one per rank. After lead.
  void remember(const Completion& text, const std::vector<wire::Report>& reports) const;
  /// Per rank, when its number of threads was measured, in seconds since the epoch; 0: not measured. After lead.
  const std::vector<std::int64_t>& threads_measured_s() const { return threads_measured_s_; }
  /// What a job is for; its plan depends on that.
  struct Purpose {
    std::size_t prompt_tokens = 0;     ///< of the text that -n tokens will follow; 0: another kind of job
    SpeculationOptions speculation{};  ///< for that text
    SamplingParams sampling{};
    bool needs_drafters = false;  ///< a lost drafter ends the job
  };
  /// How a text is decoded, once the strategy is known.
  DecodeOptions decode_options(const Purpose& purpose) const;
  /// For what savings of a draft hold, which are kept for later jobs. On rank 0, once the layout is known.
  MeasurementKey savings_key(int model, const Purpose& purpose) const;
  enum class Then { kEnd, kNextJob };
  /// mpirun asks this rank to end because another has ended, whose guard says why.
  struct EndedWithOthers : Interrupted {};
  struct Outcome {
    std::vector<wire::Report> reports;  ///< one per rank; empty if another job follows
    bool interrupted = false;
  };
  /// Leads all ranks through this job, on rank 0, after open: connects, plans, loads, does `work`, and ends it. `then`: whether the ranks
  /// stay for another job of this command. If the user interrupts, they all end. Throws EndedWithOthers.
  Outcome lead(const Purpose& purpose, const std::function<void(Head& head)>& work, Then then = Then::kEnd);
  /// After lead: how long result files may wait for the readers of named pipes. The other ranks wait for this one only twice --timeout, and
  /// then end the job as done.
  PipeDeadline pipe_deadline() const;

 private:
  struct DraftHeads {
    std::optional<draft_heads::DraftHeadsFile> file;
    draft_heads::Needs needs;
  };
  const std::string& model_path(std::size_t model) const;
  void open_models();
  void open_draft_heads();
  bool layout_is_open() const;
  bool splits_by_speed() const;
  bool drafter_placement_is_open() const;
  bool measures() const;
  bool measures_widths() const;
  RankPlace place() const;
  ThreadChoice choose_cpus(const Topology& topology) const;
  std::uint64_t unit_bytes() const;
  bool only_guesses() const;
  const std::vector<UnitSpec>& main_units() const;
  std::optional<std::string> device_of_both() const;
  void require_one_use_each() const;
  std::uint64_t available_bytes() const;
  std::int64_t probe_layer(const ModelFile& model) const;
  /// The compute unit of this rank.
  std::unique_ptr<ComputeUnit> make_unit(const std::vector<UnitSpec>& units) const;
  ComputeUnit& unit_of(std::size_t model);
  void find_own_units();
  void describe_device();
  void begin_shares(SplitUnit& unit, const std::vector<UnitSpec>& units) const;
  void prepare_probe();
  MeasurementKey speed_key() const;
  struct Speed {
    double ns_per_byte;
    bool as_kept;  ///< a kept speed still holds
  };
  Speed measure_speed(LayerProbe& probe, const MeasurementKey& key, const std::atomic<bool>& stop) const;
  double with_device(double ns_per_byte, const std::atomic<bool>& stop);
  std::vector<LayerRange> draft_split(const ModelPlace& place) const;
  std::vector<std::vector<LayerRange>> target_splits(const std::vector<wire::Hello>& hellos) const;
  void place_drafters_by_speed(const std::vector<wire::Hello>& hellos);
  std::uint64_t layer_bytes() const;
  std::vector<PlannedHost> planned_machines(const std::vector<wire::Hello>& hellos, std::span<const Link> links) const;
  GroupRecord group_record() const;
  std::optional<FirstChoices> kept_first_choices() const;
  KeptForecasts kept_forecasts() const;
  void choose_layout(const Purpose& purpose, std::span<const GroupTime> groups);
  double draft_cost(const std::vector<wire::Report>& reports) const;
  Workload expected_work(std::size_t prompt_tokens) const;
  wire::Start plan(const std::vector<wire::Hello>& hellos, const Purpose& purpose, const Head& head);
  ClusterOptions cluster();
  void start(Head& head, const Purpose& purpose);

  const JobOptions options_;
  const std::optional<Strategy> asked_strategy_;
  const bool gave_up_drafting_;
  Transport& transport_;
  std::string host_;
  int local_rank_, local_size_;
  Layout layout_;
  Strategy strategy_;
  std::optional<LayoutChoice> layout_choice_;
  std::vector<std::optional<ModelFile>> models_;  // 0: the target; only those that this rank needs are open
  std::vector<DraftHeads> draft_heads_;           // in the layout they follow the models; likewise
  wire::Hello hello_;
  cpu::Isa isa_ = cpu::Isa::kScalar;
  Topology topology_;
  std::vector<UnitSpec> units_;        // of this rank; empty: one unit with the rank's threads
  std::vector<UnitSpec> draft_units_;  // likewise, for drafts and heads; empty: the same
  int first_layers_ = 0;               // number of the target's first layers that a device of units_ computes alone
  std::vector<int> cpus_;              // CPUs of its threads
  std::unique_ptr<ComputeUnit> unit_, draft_unit_;
  bool computes_target_ = false;       // whether this rank has a stage of the target
  std::unique_ptr<LayerProbe> probe_;  // until the speed is measured
  std::vector<std::int64_t> threads_measured_s_;
  std::vector<PlannedHost> machines_;      // if the layout is chosen by the planner; set when the links are known
  std::vector<std::uint64_t> capacities_;  // per rank, for weights and cache of the target
  std::uint64_t layer_cache_bytes_ = 0;    // of one layer of the target; the mean if layers have different windows
  Workload work_;                          // of the target
};

/// What follows in a message that the context is too small, before another remedy: whether a larger one is a remedy.
std::string or_larger_context(int context, const Hyperparameters& h);
/// Throws UsageError if a prompt is longer than the context of a job with this model.
void require_prompt_fits(std::int64_t tokens, int context, const Hyperparameters& h, const char* shorter = "shorten the prompt");

}  // namespace yamata
