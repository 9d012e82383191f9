#include "launch/job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "launch/guard/guard.hpp"
#include "launch/output/output_file.hpp"
#include "launch/output/progress_bar.hpp"
#include "launch/output/standard_output.hpp"
#include "launch/planning/measurement_cache.hpp"
#include "launch/planning/split_advice.hpp"
#include "launch/planning/thread_choice.hpp"
#include "launch/standard_input.hpp"
#include "mpi/cluster/announcements.hpp"
#include "mpi/planning/drafter_placement.hpp"
#include "mpi/planning/layer_split.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "mpi/planning/rank_speed.hpp"
#include "mpi/protocol/validate.hpp"
#include "node/error.hpp"
#include "src/model/layer_probe.hpp"
#include "src/model/transformer_stage.hpp"
#include "src/model/weights.hpp"

namespace yamata {
namespace {

/// Whether every rank's share fits into memory, weights included.
bool fits_memory(std::span<const ModelFile* const> models, const wire::Start& plan, const std::vector<wire::Hello>& hellos) {
  try {
    return plan_memory(models, plan, hellos).empty();
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace

std::atomic<bool> g_interrupted{false}, g_woken{false};

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_interrupted = true; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = [](int) { g_woken = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGCONT, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its write, as a full disk is
}

void warn(const std::string& text) { print_error("yamata: warning: {}\n", text); }

Job::Job(const JobOptions& options, Transport& transport, std::string host, int local_rank, int local_size)
    : options_(decided(options, transport.size())),
      gave_up_drafting_(!options.strategy && !options.draft_models.empty() && options_.draft_models.empty()),
      transport_(transport),
      host_(std::move(host)),
      local_rank_(local_rank),
      local_size_(local_size),
      layout_(
          make_layout(options_.layer_split.text, transport.size(), static_cast<int>(options_.draft_models.size()), options_.draft_on_head)),
      models_(1 + options_.draft_models.size()) {}

wire::Hello Job::open() {
  isa_ = cpu::choose_isa();
  open_models();
  // A launcher binds ranks as if each were one thread; Yamata shares the cores out itself.
  topology_ = Topology::detect(transport_.size() > 1);
  const ThreadChoice threads = choose_cpus(topology_);
  cpus_ = threads.cpus;
  hello_.version = YAMATA_VERSION;
  hello_.host = host_;
  hello_.isa = cpu::isa_name(isa_);
  hello_.threads = static_cast<std::int32_t>(cpus_.size());
  hello_.threads_measured_s = threads.measured_s;
  hello_.logical_cpus = topology_.logical_cpus;
  hello_.cpu_group = cpu_group();
  if (measures()) hello_.ns_per_byte = measured_ns_per_byte();
  for (auto& model : models_) {
    if (model) model->file.release_pages();
  }
  hello_.available_bytes = available_memory_bytes();
  hello_.available_bytes -= std::min(hello_.available_bytes, unit_bytes());
  return hello_;
}

/// Those this rank is to hold; where that is open, all that it has.
void Job::open_models() {
  const bool open = drafter_placement_is_open() && transport_.rank() != 0;
  const auto own = static_cast<std::size_t>(layout_[place_of(layout_, transport_.rank())].model);
  hello_.fingerprints.resize(models_.size());
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (transport_.rank() != 0 && m != own && !open) continue;
    try {
      models_[m] = ModelFile::open(model_path(m));
      hello_.fingerprints[m] = models_[m]->file.fingerprint();
      if (m == own || hello_.fingerprints[own] == 0) hello_.model = static_cast<std::int32_t>(m);
    } catch (const Error&) {
      const bool another = std::any_of(models_.begin(), models_.end(), [](const auto& model) { return model.has_value(); });
      std::error_code unseen;
      const bool absent = !std::filesystem::exists(model_path(m), unseen) && !unseen;  // a damaged file is a fault
      if (!open || !absent || (m + 1 == models_.size() && !another)) throw;
    }
  }
}

/// Whether the target's split is for the ranks' speeds to say.
bool Job::splits_by_speed() const {
  const ModelPlace& target = layout_.front();
  return target.ranks.size() > 1 && target.shares.empty() && options_.layer_split.by != LayerSplit::By::kBytes;
}

/// Whether it is for them to say who drafts, too.
bool Job::drafter_placement_is_open() const { return splits_by_speed() && layout_.size() > 1 && layout_[1].ranks.front() != 0; }

/// Whether this rank's speed is asked for.
bool Job::measures() const {
  return models_.front() && splits_by_speed() && (place_of(layout_, transport_.rank()) == 0 || drafter_placement_is_open()) &&
         static_cast<std::int64_t>(layout_.front().ranks.size()) <= models_.front()->h.layers;
}

/// The logical CPUs of this rank's threads: as many as the flags say, or as prove fastest for the model it must have.
ThreadChoice Job::choose_cpus(const Topology& topology) const {
  if (!options_.units.empty()) {
    require_cores(options_.units);
    for (const auto& model : models_)
      if (model) require_parts(options_.units, model->h);
    return {cpus_of(options_.units, topology)};
  }
  const auto some = [&](int threads) { return assign_cpus(topology, threads, local_rank_, local_size_, options_.numa); };
  const std::vector<int> all = some(options_.threads);
  const auto own = static_cast<std::size_t>(hello_.model);
  if (options_.threads > 0 || all.size() < 2 || !models_[own]) return {all};
  const ModelFile& model = *models_[own];
  const MeasurementKey key{host_, cpu::isa_name(isa_), hello_.fingerprints[own], 0, local_rank_, local_size_, options_.numa};
  std::vector<std::vector<int>> choices;
  for (const int count : thread_counts(topology, all)) choices.push_back(some(count));
  try {
    return choose_threads(choices, {measurement_folder(), key, std::time(nullptr), options_.measure_threads},
                          layer_trials(model, probe_layer(model), isa_, options_.timeout / 4));
  } catch (const ModelError&) {  // the rank that is to hold the faulty layer reports it
    return {all};
  }
}

/// A layer to measure with: most likely one of this rank's own, whose part of the file it reads anyway.
std::int64_t Job::probe_layer(const ModelFile& model) const {
  return (2 * transport_.rank() + 1) * model.h.layers / (2 * transport_.size());
}

/// Nanoseconds per byte of the target on this rank; 0 where its disk is too slow to say. A speed kept from an earlier run holds as
/// long as a quick_check agrees with it to a third.
double Job::measured_ns_per_byte() {
  const ModelFile& target = *models_.front();
  if (!unit_) unit_ = make_unit();
  const MeasurementKey key{host_,       hello_.isa,  hello_.fingerprints.front(), hello_.threads,
                           local_rank_, local_size_, options_.numa,               names_of(options_.units)};
  const std::string folder = measurement_folder();
  const std::int64_t now_s = std::time(nullptr);
  try {
    LayerProbe probe(target, probe_layer(target), *unit_);
    if (!probe.warm_up(options_.timeout / 4)) return 0;
    if (options_.layer_split.by != LayerSplit::By::kMeasuredSpeed) {
      const auto kept = read_ns_per_byte(folder, key, now_s);
      if (kept && std::abs(probe.quick_check() / *kept - 1) <= 1.0 / 3) return *kept;
    }
    const double ns_per_byte = probe.measure();
    keep_ns_per_byte(folder, key, ns_per_byte, now_s);
    return ns_per_byte;
  } catch (const ModelError&) {  // the rank that is to hold the faulty layer reports it
    return 0;
  }
}

std::string Job::read_text_file(const std::string& path) {
  return path == "-" ? read_standard_input([&] { reassure(transport_); }) : read_text(path);
}

StageFactory Job::stage_factory() {
  return [this](const wire::PipelinePlan& plan, std::size_t place, CacheTypes cache_types,
                const GroupMember& group) -> std::unique_ptr<StageModel> {
    const auto model = static_cast<std::size_t>(plan.model);
    if (model >= models_.size() || !models_[model])
      throw ClusterError("this rank was started with other flags than rank 0; give all ranks the same ones");
    if (!unit_) unit_ = make_unit();
    wire::validate_layers(plan, models_[model]->h.layers, 0);
    const bool packed = place < plan.packed.size() && plan.packed[place] != 0;
    const ContextOptions context{plan.cells, plan.sequences, cache_types, packed, group};
    return std::make_unique<TransformerStage>(models_[model]->file, models_[model]->h, plan.layers.at(place), context, *unit_);
  };
}

std::uint64_t Job::mapped_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& model : models_) {
    if (model) bytes += model->file.resident_bytes();
  }
  return bytes;
}

int Job::context() const {
  const std::int64_t trained = hyperparameters().context;
  if (options_.context == 0) return static_cast<int>(std::min<std::int64_t>(trained, kDefaultContext));
  return options_.context;
}

ClusterOptions Job::cluster() const {
  ClusterOptions cluster;
  cluster.timeout = options_.timeout;
  cluster.interrupted = &g_interrupted;
  cluster.woken = &g_woken;
  cluster.on_warning = warn;
  if (isatty(STDERR_FILENO)) cluster.on_loading = ProgressBar("loading");
  return cluster;
}

/// Splits of the target, the best first; the last is taken where none fits into memory.
std::vector<std::vector<LayerRange>> Job::target_splits(const std::vector<wire::Hello>& hellos) const {
  const auto& [file, h] = *models_.front();
  const ModelPlace& place = layout_.front();
  const auto plain = place.per_rank(split_layers(file, h, place.stage_shares(), place.stages()));
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
  const auto bytes = [](const ModelFile& m) { return static_cast<double>(stage_bytes(m.file, m.h, {0, m.h.layers})); };
  return bytes(*models_[static_cast<std::size_t>(model)]) / bytes(*models_.front());
}

/// Lets the ranks' speeds say who drafts. Throws ModelError where a rank lacks the file of its part.
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

wire::Start Job::plan(const std::vector<wire::Hello>& hellos, const Purpose& purpose) {
  std::ranges::for_each(crowded_hosts(hellos), warn);
  for (const wire::Hello& hello : hellos) threads_measured_s_.push_back(hello.threads_measured_s);
  if (drafter_placement_is_open()) place_drafters_by_speed(hellos);
  wire::Start plan;
  plan.cache_types = options_.cache_types;
  plan.batch = options_.batch;
  plan.trace = options_.trace;
  std::vector<const ModelFile*> models;
  for (const auto& model : models_) models.push_back(&*model);
  const Hyperparameters& target_h = hyperparameters();
  capacities_ = weight_capacities(hellos, buffer_bytes(target_h, {0, target_h.layers}, options_.batch, hello_.threads));
  layer_cache_bytes_ = KvStore::bytes_for(1, static_cast<int>(target_h.kv_heads), static_cast<int>(target_h.head_dim),
                                          context() + purpose.guess_cells, options_.cache_types);
  const auto splits = target_splits(hellos);
  for (const ModelPlace& place : layout_) {
    const auto& [file, h] = *models[static_cast<std::size_t>(place.model)];
    wire::PipelinePlan pipeline;
    pipeline.model = place.model;
    pipeline.ranks = place.ranks;
    const bool target = place.model == 0;
    pipeline.layers = target ? splits.back() : place.per_rank(split_layers(file, h, place.stage_shares(), place.stages()));
    if (!place.groups.empty()) pipeline.shares = place.shares;
    pipeline.cells = context() + (target ? purpose.guess_cells : plan.draft.credit);
    pipeline.sequences = target ? purpose.sequences : plan.draft.credit + 1;
    plan.pipelines.push_back(std::move(pipeline));
  }
  for (std::size_t i = 0; i + 1 < splits.size(); ++i) {
    wire::Start faster = plan;
    faster.pipelines.front().layers = splits[i];
    if (!fits_memory(models, faster, hellos)) continue;
    plan_packing(models, faster, hellos, options_.repack);
    return faster;
  }
  plan_packing(models, plan, hellos, options_.repack);
  std::ranges::for_each(plan_memory(models, plan, hellos), warn);
  return plan;
}

/// In a text whose length nobody knows all tokens count alike.
Workload Job::expected_work(std::size_t prompt_tokens) const {
  if (prompt_tokens == 0) return {};
  const auto prompt = static_cast<std::int64_t>(prompt_tokens);
  const auto generated = std::clamp<std::int64_t>(options_.generate, 1, std::max<std::int64_t>(1, context() - prompt));
  const Hyperparameters& h = hyperparameters();
  constexpr std::int64_t kTokens = 1024;  // whose cache has no part of a page to speak of
  const auto cache_bytes =
      KvStore::bytes_for(1, static_cast<int>(h.kv_heads), static_cast<int>(h.head_dim), kTokens, options_.cache_types) / kTokens;
  return {prompt, generated, static_cast<double>(cache_bytes)};
}

std::string Job::split_advice(const std::vector<wire::Report>& reports, std::size_t generated_tokens) const {
  Workload done = work_;
  if (done.prompt_tokens > 0) done.generated_tokens = static_cast<std::int64_t>(generated_tokens);
  return yamata::split_advice(*models_.front(), layout_, reports, capacities_, layer_cache_bytes_, done);
}

void Job::start(Head& head, const Purpose& purpose) {
  work_ = expected_work(purpose.prompt_tokens);
  std::vector<std::uint64_t> fingerprints;
  for (const auto& model : models_) fingerprints.push_back(model->file.fingerprint());
  for (const auto& model : models_) model->file.release_pages();
  tell_guard(Phase::kWatched);
  head.start(
      hello_, fingerprints, [&](const std::vector<wire::Hello>& hellos) { return plan(hellos, purpose); }, stage_factory());
  if (const std::string warning = beyond_training(hyperparameters(), context()); !warning.empty()) warn(warning + "; lower -c");
}

Job::Outcome Job::lead(const Purpose& purpose, const std::function<void(Head& head)>& work, Then then) {
  Head head(transport_, cluster());
  start(head, purpose);
  try {
    work(head);
  } catch (const Interrupted&) {
    return {head.stop(static_cast<int>(ExitCode::kInterrupted)), true};
  }
  if (then == Then::kEnd) return {head.stop(static_cast<int>(ExitCode::kDone)), false};
  head.finish();
  return {};
}

}  // namespace yamata
