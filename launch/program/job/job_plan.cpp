// Makes the plan of a job after all ranks have said hello.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "launch/program/job/job.hpp"
#include "launch/program/output/warnings.hpp"
#include "launch/program/planning/kept_links.hpp"
#include "launch/program/planning/kept_savings.hpp"
#include "launch/program/planning/measurement_cache.hpp"
#include "launch/program/planning/split_advice.hpp"
#include "launch/program/planning/units.hpp"
#include "mpi/planning/drafter_placement.hpp"
#include "mpi/planning/layer_split.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "mpi/planning/rank_speed.hpp"
#include "node/error.hpp"
#include "src/model/weights.hpp"

namespace yamata {
namespace {

/// Whether every rank's share fits into memory, including weights.
bool fits_memory(std::span<const ModelFile* const> models, const wire::Start& plan, const std::vector<wire::Hello>& hellos,
                 std::span<const RankBytes> draft_heads) {
  try {
    return plan_memory(models, plan, hellos, draft_heads).empty();
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace

/// Splits of the target, the best first; the last one is used if none fits into memory.
std::vector<std::vector<LayerRange>> Job::target_splits(const std::vector<wire::Hello>& hellos) const {
  const auto& [file, h] = *models_.front();
  const ModelPlace& place = layout_.front();
  const int drafters = transport_.size() - static_cast<int>(place.ranks.size());
  const auto plain = place.per_rank(split_layers(file, h, place.stage_shares(), place.stages(), drafters));
  const std::vector<double> ns_per_byte = splits_by_speed() ? relative_ns_per_byte(hellos, place.ranks) : std::vector<double>{};
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

double Job::relative_cost(int model) const {
  const auto bytes = [](const ModelFile& m) { return static_cast<double>(read_bytes(m.file, m.h, {0, m.h.layers})); };
  if (is_draft_heads(model))
    return static_cast<double>(draft_heads_[static_cast<std::size_t>(model) - models_.size()].needs.evaluation_bytes) /
           bytes(*models_.front());
  return bytes(*models_[static_cast<std::size_t>(model)]) / bytes(*models_.front());
}

MeasurementKey Job::savings_key(int model, const Purpose& purpose) const {
  const DecodeOptions decode = decode_options(purpose);
  MeasurementKey key = speed_key();
  key.isa =
      fmt::format("{}-{}-{:016x}", key.isa, model,
                  fingerprint({.decode = decode, .sampling = purpose.sampling, .layout = layout_, .fingerprints = hello_.fingerprints}));
  if (!draft_heads_.empty())
    key.isa += fmt::format("-{}", options_.draft_heads_matrices ? static_cast<int>(*options_.draft_heads_matrices) : -1);
  if (has_draft_units()) key.units += "-" + names_of(draft_units_);
  key.local_size = transport_.size();
  return key;
}

/// Chooses the drafters' ranks by speed. Throws ModelError if a rank lacks the file of its part.
void Job::place_drafters_by_speed(const std::vector<wire::Hello>& hellos) {
  std::vector<DrafterCandidate> candidates;
  std::vector<int> with_target;
  for (std::size_t r = 0; r < hellos.size(); ++r) {
    candidates.emplace_back();
    for (std::size_t m = 0; m < models_.size(); ++m) candidates[r].has_model.push_back(hellos[r].fingerprints[m] == hello_.fingerprints[m]);
    if (candidates[r].has_model[0]) with_target.push_back(static_cast<int>(r));
  }
  const std::vector<double> ns_per_byte = relative_ns_per_byte(hellos, with_target);
  for (std::size_t i = 0; i < ns_per_byte.size(); ++i) candidates[static_cast<std::size_t>(with_target[i])].ns_per_byte = ns_per_byte[i];
  std::vector<double> costs;
  for (std::size_t m = 1; m < models_.size(); ++m) costs.push_back(relative_cost(static_cast<int>(m)));
  layout_ = place_drafters(layout_, candidates, costs);
  for (const ModelPlace& place : layout_) {
    const auto model = static_cast<std::size_t>(place.model);
    for (const int rank : place.ranks) {
      if (candidates[static_cast<std::size_t>(rank)].has_model[model]) continue;
      throw ModelError(fmt::format("rank {} ({}) has no {}, or another one; copy the file to that machine", rank,
                                   hellos[static_cast<std::size_t>(rank)].host, model_path(model)));
    }
  }
}

/// The ranks as input of the planner, with links from the cache. Empty if planned_hosts is.
std::vector<PlannedHost> Job::planned_machines(const std::vector<wire::Hello>& hellos, std::span<const Link> links) const {
  const bool anew = options_.layer_split.by == LayerSplit::By::kMeasuredSpeed;
  return planned_hosts(hellos, settled_links(measurement_folder(), hellos, links, std::time(nullptr), anew), layer_bytes());
}

/// Bytes of a layer of the target on a device that computes it alone.
std::uint64_t Job::layer_bytes() const {
  const ModelFile& target = *models_.front();
  const RankBytes all = rank_bytes(target, {0, target.h.layers}, Shard(target.h), options_.cache_types, options_.batch, 1);
  return (all.weights + all.cache(static_cast<std::uint64_t>(context()))) / static_cast<std::uint64_t>(target.h.layers);
}

GroupRecord Job::group_record() const {
  return {measurement_folder(), std::time(nullptr), options_.layer_split.by == LayerSplit::By::kMeasuredSpeed, uncached_bytes()};
}

/// Simulates the possible layouts. If a rank could not be measured or lacks a file, or if no layout fits, the flags' own layout remains.
void Job::choose_layout(const Purpose& purpose, std::span<const GroupTime> groups) {
  constexpr int kTokens = 48;  // of the simulated texts: enough to compare layouts, in a fraction of a second
  if (machines_.empty()) return;
  PlannedJob job{.target = *models_.front(), .draft = models_.size() > 1 ? &*models_[1] : nullptr};
  job.interrupted = &g_interrupted;
  job.speculation = purpose.speculation;
  job.cache_types = options_.cache_types;
  job.context = context();
  job.batch = options_.batch;
  job.prompt = std::min(job.prompt, static_cast<int>(purpose.prompt_tokens));
  job.generate = std::clamp(options_.generate, 2, kTokens);
  job.draws = 8;
  if (job.draft) {
    const auto first = kept_first_choices();
    if (first) job.acceptance = first->right, job.draft_cost = first->cost;
    job.acceptance4 = among_first_four(job.acceptance);
    if (first) job.over_confidence = simulation::over_confidence_of({.top1 = job.acceptance, .top4 = job.acceptance4}, first->probability);
  }
  const KeptForecasts earlier = kept_forecasts();
  job.correction = [&](const LayoutCandidate& layout) { return earlier.correction(layout); };
  job.group_costs = group_costs(job.target, machines_, groups, group_record());
  job.strategy = asked_strategy_;
  job.guesses_text = options_.guesses_text;
  job.draft_on_head = options_.draft_on_head;
  job.head_can_draft = !device_of_both();
  layout_choice_ = yamata::choose_layout(job, machines_);
  if (!layout_choice_) return;
  layout_ = layout_choice_->candidate.layout;
  strategy_ = layout_choice_->candidate.strategy;
}

/// Relative to the target's weights on the same rank; if the rank's speed is unknown or it drafted nothing, the last known cost.
double Job::draft_cost(const std::vector<wire::Report>& reports) const {
  const auto rank = static_cast<std::size_t>(layout_.at(1).ranks.front());
  const bool takes_turns = std::ranges::count(layout_.front().ranks, static_cast<int>(rank)) > 0;
  const std::vector<double>& run_s = takes_turns ? reports[rank].draft_run_s : reports[rank].run_s;
  if (rank < machines_.size() && !run_s.empty() && run_s.front() > 0)
    return 1e9 * run_s.front() / (token_bytes(*models_[1]) * machines_[rank].ns_per_byte);
  const auto kept = kept_first_choices();
  return kept ? kept->cost : 1;
}

std::optional<FirstChoices> Job::kept_first_choices() const {
  return read_first_choices(measurement_folder(), hello_.fingerprints[0], hello_.fingerprints[1], std::time(nullptr));
}

KeptForecasts Job::kept_forecasts() const {
  return {measurement_folder(), hello_.fingerprints[0], models_.size() > 1 ? hello_.fingerprints[1] : 0, std::time(nullptr)};
}

void Job::remember(const Completion& text, const std::vector<wire::Report>& reports) const {
  constexpr std::size_t kEnough = 64;
  if (text.token_ids.size() < kEnough) return;
  if (layout_choice_ && std::ranges::none_of(reports, [](const auto& rank) { return rank.role == "lost"; })) {
    const double measured = static_cast<double>(text.token_ids.size() - 1) / text.token_times_s.back();
    kept_forecasts().keep(layout_choice_->candidate, {layout_choice_->simulated_tokens_per_s, measured});
  }
  if (models_.size() != 2 || layout_.size() < 2) return;
  const auto kept = kept_first_choices();
  FirstChoices first = first_choices(text.choices, text.token_ids, kept ? kept->right : kUsualAcceptance);
  if (first.right <= 0 || first.probability <= 0) return;
  first.cost = draft_cost(reports);
  keep_first_choices(measurement_folder(), hello_.fingerprints[0], hello_.fingerprints[1], first, std::time(nullptr));
}

DecodeOptions Job::decode_options(const Purpose& purpose) const {
  if (purpose.prompt_tokens == 0) return {};
  return yamata::decode_options(strategy_, purpose.speculation, options_.batch, options_.generate, context(), purpose.sampling);
}

/// The layer split of a draft, or of heads, on their ranks.
std::vector<LayerRange> Job::draft_split(const ModelPlace& place) const {
  if (is_draft_heads(place.model)) return {{0, 1}};
  const auto& [file, h] = *models_[static_cast<std::size_t>(place.model)];
  return place.per_rank(split_layers(file, h, place.stage_shares(), place.stages()));
}

wire::Start Job::plan(const std::vector<wire::Hello>& hellos, const Purpose& purpose, const Head& head) {
  std::ranges::for_each(crowded_hosts(hellos), warn);
  if (const std::string without = ranks_without_device(hellos); !without.empty())
    warn(fmt::format("-ngl {}: {}", options_.gpu_layers.value_or(0), without));
  for (const wire::Hello& hello : hellos) threads_measured_s_.push_back(hello.threads_measured_s);
  if (layout_is_open()) choose_layout(purpose, head.group_times());
  if (drafter_placement_is_open()) place_drafters_by_speed(hellos);
  const DecodeOptions decode = decode_options(purpose);
  wire::Start plan;
  plan.cache_types = options_.cache_types;
  plan.batch = options_.batch;
  plan.trace = options_.trace;
  plan.draft = draft_options(decode.policy);
  std::vector<const ModelFile*> models;
  for (const auto& model : models_) models.push_back(&*model);
  std::vector<RankBytes> draft_heads;
  for (const DraftHeads& h : draft_heads_)
    draft_heads.push_back({h.needs.weight_bytes, h.needs.cache_per_cell, h.needs.row_bytes * static_cast<std::uint64_t>(options_.batch)});
  const Hyperparameters& target_h = hyperparameters();
  capacities_ = weight_capacities(hellos, buffer_bytes(target_h, {0, target_h.layers}, options_.batch, hello_.threads), layer_bytes());
  const bool writes = purpose.prompt_tokens > 0;  // the job generates a text, which only grows
  const std::int32_t cells = context() + decode.guess_cells,
                     windowed = writes ? window_cells(target_h, cells, decode.guess_cells, plan.batch) : 0;
  layer_cache_bytes_ = rank_bytes(*models_.front(), {0, target_h.layers}, Shard(target_h), plan.cache_types, plan.batch, 1, windowed)
                           .cache(static_cast<std::uint64_t>(cells)) /
                       static_cast<std::uint64_t>(target_h.layers);
  const auto splits = target_splits(hellos);
  for (const ModelPlace& place : layout_) {
    wire::PipelinePlan pipeline;
    pipeline.model = place.model;
    pipeline.ranks = place.ranks;
    const bool target = place.model == 0;
    pipeline.layers = target ? splits.back() : draft_split(place);
    if (!place.groups.empty()) pipeline.shares = place.shares;
    pipeline.cells = context() + (target ? decode.guess_cells : plan.draft.room());
    pipeline.sequences = target ? decode.sequences.end : plan.draft.room() + 1;
    if (writes && !is_draft_heads(place.model))
      pipeline.window_cells = window_cells(models_[static_cast<std::size_t>(place.model)]->h, pipeline.cells,
                                           target ? decode.guess_cells : plan.draft.room(), plan.batch);
    plan.pipelines.push_back(std::move(pipeline));
  }
  for (std::size_t i = 0; i + 1 < splits.size(); ++i) {
    wire::Start faster = plan;
    faster.pipelines.front().layers = splits[i];
    if (!fits_memory(models, faster, hellos, draft_heads)) continue;
    plan_packing(models, faster, hellos, options_.repack, draft_heads);
    return faster;
  }
  plan_packing(models, plan, hellos, options_.repack, draft_heads);
  std::ranges::for_each(plan_memory(models, plan, hellos, draft_heads), warn);
  return plan;
}

/// If the length of the text is unknown, all tokens have equal weight.
Workload Job::expected_work(std::size_t prompt_tokens) const {
  if (prompt_tokens == 0) return {};
  const auto prompt = static_cast<std::int64_t>(prompt_tokens);
  const auto generated = std::clamp<std::int64_t>(options_.generate, 1, std::max<std::int64_t>(1, context() - prompt));
  const Hyperparameters& h = hyperparameters();
  constexpr std::int64_t kTokens = 1024;  // many enough that a partly used page does not matter
  const auto cache_bytes = KvStore::bytes_for(Shard(h).cache_shape(1), kTokens, options_.cache_types) / kTokens;
  return {prompt, generated, static_cast<double>(cache_bytes)};
}

std::string Job::split_advice(const std::vector<wire::Report>& reports, std::size_t generated_tokens) const {
  std::size_t with_a_part = 0;
  for (const ModelPlace& place : layout_) with_a_part += place.ranks == std::vector<int>{0} && place.model > 0 ? 0 : place.ranks.size();
  if (with_a_part < reports.size()) return "";  // there is no flag for that
  Workload done = work_;
  if (done.prompt_tokens > 0) done.generated_tokens = static_cast<std::int64_t>(generated_tokens);
  return yamata::split_advice(*models_.front(), layout_, reports, capacities_, layer_cache_bytes_, done);
}

}  // namespace yamata
