#include "launch/program/job/job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>

#include "launch/program/guard/guard.hpp"
#include "launch/program/input/input_text.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/progress_bar.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/output/version.hpp"
#include "launch/program/output/warnings.hpp"
#include "launch/program/planning/kept_links.hpp"
#include "launch/program/planning/measurement_cache.hpp"
#include "launch/program/planning/thread_choice.hpp"
#include "mpi/cluster/announcements.hpp"
#include "mpi/cluster/left_out.hpp"
#include "mpi/cluster/mpirun.hpp"
#include "mpi/protocol/validate.hpp"
#include "mpi/transport/congestion.hpp"
#include "node/error.hpp"
#include "src/model/transformer_stage.hpp"
#include "src/model/weights.hpp"

namespace yamata {

Job::Job(const JobOptions& options, Transport& transport, std::string host, int local_rank, int local_size)
    : options_(decided(options, transport.size())),
      asked_strategy_(options.strategy),
      gave_up_drafting_(!options.strategy && !options.draft_models.empty() && options_.draft_models.empty()),
      transport_(transport),
      host_(std::move(host)),
      local_rank_(local_rank),
      local_size_(local_size),
      layout_(make_layout(options_.layer_split.text, transport.size(), static_cast<int>(options_.draft_models.size()),
                          options_.draft_on_head, static_cast<int>(options_.draft_heads.size()))),
      strategy_(options_.strategy.value_or(Strategy::kIterative)),
      models_(1 + options_.draft_models.size()),
      draft_heads_(options_.draft_heads.size()) {}

const std::string& Job::model_path(std::size_t model) const {
  if (model == 0) return options_.model;
  return is_draft_heads(static_cast<int>(model)) ? options_.draft_heads[model - models_.size()] : options_.draft_models[model - 1];
}

wire::Hello Job::open() {
  isa_ = cpu::choose_isa();
  open_models();
  open_draft_heads();
  // Launchers bind ranks as if each were one thread; Yamata divides the cores itself.
  topology_ = Topology::detect(transport_.size() > 1);
  find_own_units();
  const ThreadChoice threads = choose_cpus(topology_);
  cpus_ = threads.cpus;
  hello_.version = version();
  hello_.host = host_;
  hello_.isa = cpu::isa_name(isa_);
  hello_.threads = static_cast<std::int32_t>(cpus_.size());
  hello_.threads_measured_s = threads.measured_s;
  hello_.logical_cpus = topology_.logical_cpus;
  hello_.cpu_group = cpu_group();
  hello_.machine = machine_id();
  hello_.cpu = cpu_name();
  if (const char* factor = std::getenv("YAMATA_SLOW")) hello_.cpu += fmt::format(", slowed {}", factor);
  hello_.available_bytes = available_bytes();
  describe_device();
  if (measures()) prepare_probe();
  for (auto& model : models_) {
    if (model) model->file.release_pages();
  }
  return hello_;
}

/// Opens the models that this rank will hold; if that is undecided, all that exist on its machine.
void Job::open_models() {
  const bool open = (layout_is_open() || drafter_placement_is_open()) && transport_.rank() != 0;
  const auto own = static_cast<std::size_t>(layout_[place_of(layout_, transport_.rank())].model);
  hello_.fingerprints.resize(models_.size() + draft_heads_.size());
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const bool reads_target = m == 0 && is_draft_heads(static_cast<int>(own));
    if (transport_.rank() != 0 && m != own && !open && !reads_target) continue;
    try {
      models_[m] = ModelFile::open(model_path(m));
      hello_.fingerprints[m] = models_[m]->file.fingerprint();
      if (m == own || hello_.fingerprints[own] == 0) hello_.model = static_cast<std::int32_t>(m);
    } catch (const Error&) {
      const bool another = std::any_of(models_.begin(), models_.end(), [](const auto& model) { return model.has_value(); });
      std::error_code unseen;
      const bool absent = !std::filesystem::exists(model_path(m), unseen) && !unseen;  // a damaged file is an error
      if (!open || !absent || (m + 1 == models_.size() && !another)) throw;
    }
  }
}

/// Opens those on this rank, and on rank 0 all, so that heads that do not fit the target are refused before anything is loaded.
void Job::open_draft_heads() {
  const auto own = static_cast<std::size_t>(layout_[place_of(layout_, transport_.rank())].model);
  for (std::size_t i = 0; i < draft_heads_.size(); ++i) {
    const std::size_t model = models_.size() + i;
    if (transport_.rank() != 0 && model != own) continue;
    DraftHeads& draft_heads = draft_heads_[i];
    draft_heads.file = options_.mtp && i + 1 == draft_heads_.size()
                           ? draft_heads::DraftHeadsFile::in_target(models_.front()->file)
                           : draft_heads::DraftHeadsFile::open(model_path(model), draft_heads::find_kind(options_.draft_heads_kind));
    draft_heads.needs = draft_heads.file->needs(*models_.front(), {0, 1, options_.cache_types}, options_.draft_heads_matrices);
    hello_.fingerprints[model] = draft_heads.file->fingerprint();
    if (model == own) hello_.model = static_cast<std::int32_t>(model);
  }
}

std::string Job::source_name(int model) const {
  return is_draft_heads(model)
             ? fmt::format("{} heads", draft_heads::kind_name(draft_heads_[static_cast<std::size_t>(model) - models_.size()].file->kind()))
             : "draft model";
}

std::vector<std::int32_t> Job::feature_layers(int model) const {
  return is_draft_heads(model) ? draft_heads_[static_cast<std::size_t>(model) - models_.size()].needs.feature_layers
                               : std::vector<std::int32_t>{};
}

/// Whether the planner chooses the layout: with several machines and at most one drafter. With a single machine, the user wants all ranks
/// to be used. False after the decision.
bool Job::layout_is_open() const {
  if (!options_.plans_layout || !draft_heads_.empty() || !layout_.front().shares.empty() || options_.draft_models.size() > 1) return false;
  if (options_.layer_split.by != LayerSplit::By::kSpeed && options_.layer_split.by != LayerSplit::By::kMeasuredSpeed) return false;
  for (int rank = 1; rank < transport_.size(); ++rank) {
    if (transport_.host(rank) != transport_.host(0)) return true;
  }
  return false;
}

/// Whether the target's layers are divided by the ranks' speeds.
bool Job::splits_by_speed() const {
  const ModelPlace& target = layout_.front();
  return target.ranks.size() > 1 && target.shares.empty() && options_.layer_split.by != LayerSplit::By::kBytes;
}

/// Whether the speeds also determine the drafters' ranks.
bool Job::drafter_placement_is_open() const {
  return draft_heads_.empty() && splits_by_speed() && layout_.size() > 1 && layout_[1].ranks.front() != 0;
}

/// Whether this rank's speed must be measured.
bool Job::measures() const {
  if (models_.front() && layout_is_open()) return true;
  return models_.front() && splits_by_speed() && (place_of(layout_, transport_.rank()) == 0 || drafter_placement_is_open()) &&
         static_cast<std::int64_t>(layout_.front().ranks.size()) <= models_.front()->h.layers;
}

/// The logical CPUs of this rank's threads: as many as the flags say, or the fastest number for the model that this rank must have.
ThreadChoice Job::choose_cpus(const Topology& topology) const {
  std::vector<UnitSpec> own_units = main_units();
  if (!own_units.empty()) {
    const char* flag = &main_units() == &draft_units_ ? "--draft-units" : "--units";
    for (const auto& model : models_)
      if (model) require_fit(own_units, model->h, first_layers_ > 0, flag);
    if (first_layers_ > 0) std::erase_if(own_units, &UnitSpec::device);  // the device's thread and the others do not run at the same time
    return {cpus_of(own_units, topology)};
  }
  const auto some = [&](int threads) { return assign_cpus(topology, threads, local_rank_, local_size_, options_.numa); };
  const std::vector<int> all = some(options_.threads);
  const std::size_t own = is_draft_heads(hello_.model) ? 0 : static_cast<std::size_t>(hello_.model);
  if (options_.threads > 0 || all.size() < 2 || !models_[own]) return {all};
  const ModelFile& model = *models_[own];
  const MeasurementKey key{host_, cpu::isa_name(isa_), hello_.fingerprints[own], 0, local_rank_, local_size_, options_.numa};
  std::vector<std::vector<int>> choices;
  for (const int count : thread_counts(topology, all)) choices.push_back(some(count));
  try {
    return choose_threads(choices, {measurement_folder(), key, std::time(nullptr), options_.measure_threads, load_file()},
                          layer_trials(model, probe_layer(model), isa_, options_.timeout / 4));
  } catch (const ModelError&) {  // the rank that will hold the damaged layer reports it
    return {all};
  }
}

std::string Job::read_text_file(const std::string& path) {
  const auto began = Clock::now();
  const auto while_waiting = [&] {
    stop_if_interrupted();
    announce_alive(transport_);
    if (Clock::now() - began > options_.timeout / 2) may_be_cut_off();  // meanwhile this rank hears no other
  };
  std::string text = read_text(path, kTextFlag, while_waiting);
  // When mpirun is interrupted, it wakes its processes, closes their input, and ends them a second later: the text may be unfinished.
  constexpr auto kWakes = std::chrono::milliseconds(250), kEnds = std::chrono::milliseconds(2000);
  const auto closed = Clock::now();
  while (path == "-" && transport_.size() > 1 && Clock::now() - closed < (g_woken ? kEnds : kWakes)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    while_waiting();
  }
  may_be_cut_off(false);
  return text;
}

StageFactory Job::stage_factory() {
  return [this](const wire::PipelinePlan& plan, std::size_t place, CacheTypes cache_types,
                const GroupMember& group) -> std::unique_ptr<StageModel> {
    const auto model = static_cast<std::size_t>(plan.model);
    const DraftHeads* draft_heads =
        is_draft_heads(plan.model) && model < models_.size() + draft_heads_.size() ? &draft_heads_[model - models_.size()] : nullptr;
    if (draft_heads ? !draft_heads->file : is_draft_heads(plan.model) || !models_[model])
      throw ClusterError("this rank was started with other flags than rank 0; give all ranks the same ones");
    computes_target_ |= model == 0;
    ComputeUnit& unit = unit_of(model);
    wire::validate_layers(plan, draft_heads ? 1 : models_[model]->h.layers, 0);
    const auto packed = place < plan.packed.size() ? static_cast<wire::Packed>(plan.packed[place]) : wire::Packed::kNone;
    const ContextOptions options{.cells = plan.cells,
                                 .sequences = plan.sequences,
                                 .cache_types = cache_types,
                                 .pack = packed == wire::Packed::kAll,
                                 .group = group,
                                 .context = context(),
                                 .window_cells = plan.window_cells,
                                 .first_layers = model == 0 ? first_layers_ : 0,
                                 .pack_first = packed == wire::Packed::kFirstLayers};
    if (draft_heads) return draft_heads->file->make_stage(*models_.front(), options, options_.draft_heads_matrices, unit);
    return std::make_unique<TransformerStage>(models_[model]->file, models_[model]->h, plan.layers.at(place), options, unit);
  };
}

LayerFactory Job::layer_factory() {
  return [this](LayerRange layers, const GroupMember& group) -> std::unique_ptr<StageModel> {
    constexpr int kCells = 16;
    const auto& target = models_.front();
    if (!target || layers.end > target->h.layers)
      throw ClusterError("this rank was started with other flags than rank 0; give all ranks the same ones");
    const ContextOptions options{kCells, 1, options_.cache_types, options_.repack, group, kCells};
    auto stage = std::make_unique<TransformerStage>(target->file, target->h, layers, options, unit_of(0));
    stage->keep_columns();
    return stage;
  };
}

std::uint64_t Job::mapped_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& model : models_) {
    if (model) bytes += model->file.resident_bytes();
  }
  for (const DraftHeads& draft_heads : draft_heads_) bytes += draft_heads.file ? draft_heads.file->resident_bytes() : 0;
  return bytes;
}

int Job::context() const {
  const std::int64_t trained = hyperparameters().context;
  if (options_.context == 0) return static_cast<int>(std::min<std::int64_t>(trained, kDefaultContext));
  return options_.context;
}

ClusterOptions Job::cluster() {
  ClusterOptions cluster;
  cluster.timeout = options_.timeout;
  cluster.interrupted = &g_interrupted;
  cluster.woken = &g_woken;
  cluster.on_warning = warn;
  cluster.on_left_out = [](int rank) {
    may_be_cut_off();
    announce_left_out(rank);
  };
  cluster.reaches_launcher = reaches_distant_mpirun;
  if (layout_is_open() || splits_by_speed()) cluster.measure = [this](const std::atomic<bool>& stop) { return measure(stop); };
  cluster.probes_links = layout_is_open();
  if (layout_is_open()) {
    cluster.next_group = [this](const std::vector<wire::Hello>& hellos, std::span<const Link> links, std::span<const GroupTime> so_far) {
      if (so_far.empty()) {
        machines_ = planned_machines(hellos, links);
        if (const std::string paced = pacing_warning(links, congestion_control()); !paced.empty()) warn(paced);
      }
      return yamata::next_group(*models_.front(), machines_, so_far, group_record());
    };
    cluster.make_layer = layer_factory();
  }
  if (isatty(STDERR_FILENO)) cluster.on_loading = ProgressBar("loading");
  return cluster;
}

void Job::start(Head& head, const Purpose& purpose) {
  work_ = expected_work(purpose.prompt_tokens);
  std::vector<std::uint64_t> fingerprints;
  for (const auto& model : models_) fingerprints.push_back(model->file.fingerprint());
  for (const DraftHeads& draft_heads : draft_heads_) fingerprints.push_back(draft_heads.file->fingerprint());
  for (const auto& model : models_) model->file.release_pages();
  tell_guard(Phase::kWatched);
  const auto accepted_plan = [&](const std::vector<wire::Hello>& hellos) {
    wire::Start planned = plan(hellos, purpose, head);
    show_warnings();
    return planned;
  };
  head.start(hello_, fingerprints, accepted_plan, stage_factory());
  if (const std::string warning = beyond_training(hyperparameters(), context()); !warning.empty())
    warn(warning + "; " + options_.shorter_context);
}

Job::Outcome Job::lead(const Purpose& purpose, const std::function<void(Head& head)>& work, Then then) {
  ClusterOptions options = cluster();
  options.needs_drafters = purpose.needs_drafters;
  Head head(transport_, std::move(options));
  start(head, purpose);
  try {
    work(head);
  } catch (const Interrupted&) {
    if (head.misses_rank()) throw EndedWithOthers{};
    constexpr std::chrono::milliseconds kLimit{500};  // mpirun kills this rank after a second: before that, it must write its files
    return {head.stop(static_cast<int>(ExitCode::kInterrupted), kLimit), true};
  }
  // If the launcher cannot be told, the other ranks end the job as failed, because the text did not arrive there. They must know before
  // this rank writes its files; head_main asks again after that, as this answer does not cover that time. Meanwhile this rank is silent.
  if (then == Then::kEnd) {
    const bool arrives = transport_.size() == 1 || reaches_mpirun(std::min(options_.timeout / 2, std::chrono::milliseconds(4000)));
    return {head.stop(static_cast<int>(arrives ? ExitCode::kDone : ExitCode::kCluster)), false};
  }
  head.finish();
  return {};
}

PipeDeadline Job::pipe_deadline() const {
  return transport_.size() == 1 ? kNoDeadline : std::chrono::steady_clock::now() + options_.timeout;
}

std::string or_larger_context(int context, const Hyperparameters& h) {
  return context < h.context ? "; raise -c or" : ", and the model was trained for no longer text;";
}

void require_prompt_fits(std::int64_t tokens, int context, const Hyperparameters& h, const char* shorter) {
  if (tokens <= context) return;
  throw UsageError(
      fmt::format("the prompt has {} tokens, the context holds {}{} {}", tokens, context, or_larger_context(context, h), shorter));
}

}  // namespace yamata
