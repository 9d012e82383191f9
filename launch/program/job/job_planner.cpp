#include "launch/program/job/job_planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "launch/program/options/unit_flags.hpp"
#include "launch/program/output/warnings.hpp"
#include "launch/program/planning/split_advice.hpp"
#include "launch/program/planning/units.hpp"
#include "mpi/planning/cache_size.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "mpi/planning/rank_speed.hpp"
#include "src/model/layer_shapes.hpp"

namespace yamata {
namespace {

constexpr int kMostCheckpoints = 16;  // of states; each is as large as that of a text

}  // namespace

DecodeOptions decode_options(const JobRank& rank, const ExpectedText& text) {
  if (text.prompt_tokens == 0) return {};
  DecodeOptions decode =
      decode_options(rank.layout().strategy(), text.speculation, rank.options().cache.batch, text.generate, rank.context(), text.sampling);
  decode.kept_texts = text.kept_texts;
  decode.slots = text.slots;
  if (rank.models().target().h.is_recurrent()) limit_guesses(decode, rank.layout().places().front().stages());
  return decode;
}

JobPlanner::JobPlanner(JobRank& rank, LayoutChooser& chooser, const ExpectedText& text)
    : rank_(rank), chooser_(chooser), text_(text), work_(expected_work(text)) {}

/// If the length of the text is unknown, all tokens have equal weight.
Workload JobPlanner::expected_work(const ExpectedText& text) const {
  if (text.prompt_tokens == 0) return {};
  const auto prompt = static_cast<std::int64_t>(text.prompt_tokens);
  const auto generated = std::clamp<std::int64_t>(text.generate, 1, std::max<std::int64_t>(1, rank_.context() - prompt));
  constexpr std::int64_t kTokens = 1024;  // many enough that a partly used page does not matter
  return {prompt, generated, mean_cell_bytes(rank_.models().target().h, rank_.options().cache.types, kTokens)};
}

/// Splits of the target, the best first; the last one is used if none fits into memory.
std::vector<std::vector<LayerRange>> JobPlanner::target_splits(const std::vector<wire::Hello>& hellos) const {
  const auto& [file, h] = rank_.models().target();
  const ModelPlace& place = rank_.layout().places().front();
  const int drafters = rank_.location().ranks - static_cast<int>(place.ranks.size());
  const auto plain = place.per_rank(split_layers(file, h, place.stage_shares(), place.stages(), drafters));
  const std::vector<double> ns_per_byte =
      rank_.layout().splits_by_speed() ? relative_ns_per_byte(hellos, place.ranks) : std::vector<double>{};
  if (ns_per_byte.empty()) return {plain};
  std::vector<RankStrength> fast, fitting;
  for (std::size_t r = 0; r < ns_per_byte.size(); ++r) {
    fast.push_back({ns_per_byte[r]});
    fitting.push_back({ns_per_byte[r], capacities_[static_cast<std::size_t>(place.ranks[r])]});
  }
  std::vector<std::vector<LayerRange>> splits{split_layers(file, h, fast, 0, work_)};
  if (auto split = split_layers(file, h, fitting, layer_cache_bytes_, work_); !split.empty()) splits.push_back(std::move(split));
  splits.push_back(plain);
  return splits;
}

/// The layer split of a draft, or of heads, on their ranks.
std::vector<LayerRange> JobPlanner::draft_split(const ModelPlace& place) const {
  if (rank_.models().is_draft_heads(place.model)) return {{0, 1}};
  const auto& [file, h] = *rank_.models().find(static_cast<std::size_t>(place.model));
  return place.per_rank(split_layers(file, h, place.stage_shares(), place.stages()));
}

/// Whether layers with windows or states get less memory than others, because only the latest tokens of texts are needed. That holds while
/// texts are generated, which only grow; and for states always, because they can be read only where a text ends.
bool JobPlanner::reuses(const Hyperparameters& h) const { return writes() || h.is_recurrent(); }

/// Memory of the ranks for the target, and of its cache, in a pipeline of this shape.
void JobPlanner::find_capacities(const std::vector<wire::Hello>& hellos, const wire::PipelinePlan& shape) {
  const CacheOptions& cache = rank_.options().cache;
  const ModelFile& target = rank_.models().target();
  capacities_ =
      weight_capacities(hellos, buffer_bytes(target.h, {0, target.h.layers}, cache.batch, rank_.units().threads()), layer_bytes(rank_));
  const RankBytes all =
      rank_bytes(target, {0, target.h.layers}, Shard(target.h), cache.types, cache.batch, 1, shape.window_cells, shape.texts());
  layer_cache_bytes_ = all.cache(static_cast<std::uint64_t>(shape.cells)) / static_cast<std::uint64_t>(target.h.layers);
}

/// What layers with windows or states keep: the ends of all texts, and of some checkpoints, if that is less than everything. Windows of
/// checkpoints are as many as those of texts.
void JobPlanner::plan_ends(wire::PipelinePlan& pipeline, const DecodeOptions& decode, const wire::Start& plan) const {
  const ModelFile* file = rank_.models().find(static_cast<std::size_t>(pipeline.model));
  if (!file || !reuses(file->h)) return;
  const bool target = pipeline.model == 0;
  const std::int32_t guesses = target ? decode.guess_cells : pipeline.slots * plan.draft.room();
  if (target) pipeline.checkpoints = std::min(decode.kept_texts, file->h.is_recurrent() ? kMostCheckpoints : decode.slots);
  for (;; pipeline.checkpoints /= 2) {
    pipeline.window_cells = window_cells(file->h, pipeline.cells, guesses, plan.batch, !target, pipeline.texts());
    if (pipeline.window_cells > 0 || pipeline.checkpoints == 0) return;
  }
}

int JobPlanner::slots_of(const ModelPlace& place) const {
  const bool shares_unit = place.model > 0 && place.ranks.front() == 0 && !rank_.units().has_draft_units();
  return shares_unit ? 1 : text_.slots;
}

/// A model's ranks and its cache, without the layers.
wire::PipelinePlan JobPlanner::shape_of(const ModelPlace& place, const DecodeOptions& decode, const wire::Start& plan) const {
  wire::PipelinePlan pipeline;
  pipeline.model = place.model;
  pipeline.ranks = place.ranks;
  const bool target = place.model == 0;
  if (!place.groups.empty()) pipeline.shares = place.shares;
  pipeline.slots = slots_of(place);
  const std::int32_t texts = target || pipeline.slots > 1 ? text_cells() : rank_.context();
  pipeline.cells = texts + (target ? decode.guess_cells : pipeline.slots * plan.draft.room());
  pipeline.slot_sequences = target ? decode.sequences.end - decode.sequences.begin : plan.draft.room() + 1;
  pipeline.sequences = pipeline.slots * pipeline.slot_sequences + decode.kept_texts;
  plan_ends(pipeline, decode, plan);
  return pipeline;
}

/// The plan without layers.
wire::Start JobPlanner::shapes(const DecodeOptions& decode) const {
  const JobOptions& options = rank_.options();
  wire::Start plan;
  plan.cache_types = options.cache.types;
  plan.batch = options.cache.batch;
  plan.trace = options.trace;
  plan.draft = draft_options(decode.policy);
  for (const ModelPlace& place : rank_.layout().places()) plan.pipelines.push_back(shape_of(place, decode, plan));
  return plan;
}

/// The sizes of the cache that are tried, the most wanted first: as many slots as wanted with a context for each, but none of more than
/// usual size, with less for all together; with fewer slots, if each needs memory for a window or for states; and one text at a time.
std::vector<ExpectedText> JobPlanner::sizes() const {
  std::vector<ExpectedText> sizes;
  const std::int32_t context = rank_.context();
  const Hyperparameters& h = rank_.models().target().h;
  const auto add = [&](int slots, std::int32_t cells) {
    sizes.push_back(text_);
    sizes.back().slots = slots;
    if (slots > 1) sizes.back().cache_tokens = std::max(cells, context);
  };
  for (int slots = text_.slots; slots > 1; slots = h.layer.window > 0 || h.is_recurrent() ? slots / 2 : 1) {
    for (const std::int32_t cells : text_.cache_tokens > 0 ? std::vector{text_.cache_tokens} : cache_sizes(slots, context))
      add(slots, cells);
  }
  add(1, 0);
  return sizes;
}

/// A plan with as many slots and cells as fit into memory, without layers that a device would hold otherwise.
std::optional<wire::Start> JobPlanner::fitting_plan(const std::vector<wire::Hello>& hellos) {
  const auto on_devices = [](const wire::Start& plan) {
    const std::vector<std::int32_t>& layers = plan.pipelines.front().first_layers;
    return std::accumulate(layers.begin(), layers.end(), 0);
  };
  const std::vector<ExpectedText> all = sizes();
  text_ = all.back();
  const std::optional<wire::Start> smallest = all.size() > 1 ? plan_of_size(hellos, true) : std::nullopt;
  for (const ExpectedText& size : all) {
    text_ = size;
    auto plan = plan_of_size(hellos, size.slots > 1);
    if (plan && (!smallest || on_devices(*plan) >= on_devices(*smallest))) return plan;
  }
  return std::nullopt;
}

/// A plan of this text that fits into memory, by one of the faster splits, or by any.
std::optional<wire::Start> JobPlanner::plan_of_size(const std::vector<wire::Hello>& hellos, bool by_any_split) {
  const DecodeOptions decode = decode_options(rank_, text_);
  const std::vector<const ModelFile*> models = rank_.models().transformers();
  const std::vector<RankBytes> draft_heads = rank_.models().draft_heads_bytes(rank_.options().cache.batch);
  wire::Start plan = shapes(decode);
  find_capacities(hellos, plan.pipelines.front());
  const auto splits = target_splits(hellos);
  for (std::size_t i = 0; i + (by_any_split ? 0 : 1) < splits.size(); ++i) {
    plan_layers(plan, splits[i]);
    plan_device_layers(models, plan, hellos, draft_heads);
    plan_checkpoints(models, plan, hellos, draft_heads);
    if (!fits_memory(models, plan, hellos, draft_heads)) continue;
    plan_packing(models, plan, hellos, rank_.options().compute.repack, draft_heads);
    return plan;
  }
  return std::nullopt;
}

void JobPlanner::plan_layers(wire::Start& plan, const std::vector<LayerRange>& target) const {
  for (std::size_t m = 0; m < plan.pipelines.size(); ++m) {
    const ModelPlace& place = rank_.layout().places()[m];
    plan.pipelines[m].layers = place.model == 0 ? target : draft_split(place);
  }
}

wire::Start JobPlanner::plan(const std::vector<wire::Hello>& hellos, std::span<const GroupTime> groups) {
  const JobOptions& options = rank_.options();
  std::ranges::for_each(crowded_hosts(hellos), warn);
  if (const std::string without = ranks_without_device(hellos); !without.empty())
    warn(fmt::format("-ngl {}: {}", gpu_layers_text(options.compute.gpu_layers.value_or(0)), without));
  for (const wire::Hello& hello : hellos) threads_measured_s_.push_back(hello.threads_measured_s);
  chooser_.choose(hellos, text_, groups);
  const bool wants_slots = text_.slots > 1;
  const auto fitting = fitting_plan(hellos);
  if (wants_slots && text_.slots == 1) warn("there is no memory for several texts at a time; a shorter context (-c) may leave room");
  if (fitting) {
    std::ranges::for_each(ranks_without_layers(*fitting, hellos), warn);
    return *fitting;
  }
  const std::vector<const ModelFile*> models = rank_.models().transformers();
  const std::vector<RankBytes> draft_heads = rank_.models().draft_heads_bytes(options.cache.batch);
  wire::Start plan = shapes(decode_options(rank_, text_));
  plan_layers(plan, target_splits(hellos).back());
  plan_device_layers(models, plan, hellos, draft_heads);
  plan_checkpoints(models, plan, hellos, draft_heads);
  plan_packing(models, plan, hellos, options.compute.repack, draft_heads);
  std::ranges::for_each(plan_memory(models, plan, hellos, draft_heads), warn);
  std::ranges::for_each(ranks_without_layers(plan, hellos), warn);
  return plan;
}

std::string JobPlanner::split_advice(const std::vector<wire::Report>& reports, std::size_t generated_tokens) const {
  const Layout& layout = rank_.layout().places();
  std::size_t with_a_part = 0;
  for (const ModelPlace& place : layout) with_a_part += place.ranks == std::vector<int>{0} && place.model > 0 ? 0 : place.ranks.size();
  if (with_a_part < reports.size()) return "";  // there is no flag for that
  Workload done = work_;
  if (done.prompt_tokens > 0) done.generated_tokens = static_cast<std::int64_t>(generated_tokens);
  return yamata::split_advice(rank_.models().target(), layout, reports, capacities_, layer_cache_bytes_, done);
}

}  // namespace yamata
