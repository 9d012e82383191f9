#include "launch/job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>

#include "mpi/layer_split.hpp"
#include "mpi/memory_plan.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"
#include "src/model/transformer_stage.hpp"

namespace yamata {
namespace {

/// The share of the weights that is in memory, drawn over itself; gone when all is.
class LoadingBar {
 public:
  void operator()(double share) {
    const int percent = static_cast<int>(share * 100);
    if (percent == shown_) return;
    shown_ = percent;
    constexpr int kWidth = 40;
    const auto full = static_cast<std::size_t>(share * kWidth);
    fmt::print(stderr, "\rloading [{}{}] {:>3} %", std::string(full, '#'), std::string(kWidth - full, ' '), percent);
    if (percent == 100) fmt::print(stderr, "\r{:60}\r", "");
  }

 private:
  int shown_ = -1;
};

}  // namespace

std::atomic<bool> g_interrupted{false};

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_interrupted = true; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Job::Job(const Options& options, Transport& transport, std::string host, int local_rank, int local_size)
    : options_(decided(options, transport.size())),
      gave_up_drafting_(options.strategy == "auto" && !options.draft_models.empty() && options_.draft_models.empty()),
      transport_(transport),
      host_(std::move(host)),
      local_rank_(local_rank),
      local_size_(local_size),
      layout_(make_layout(options_.layer_split, transport.size(), static_cast<int>(options_.draft_models.size()), options_.no_async)),
      models_(1 + options_.draft_models.size()) {}

wire::Hello Job::open() {
  isa_ = cpu::choose_isa();
  hello_.model = layout_[place_of(layout_, transport_.rank())].model;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (transport_.rank() != 0 && static_cast<std::int32_t>(m) != hello_.model) continue;
    models_[m] = ModelFile::open(m == 0 ? options_.model : options_.draft_models[m - 1]);
  }
  // A launcher binds ranks as if each were one thread; Yamata shares the cores out itself.
  cpus_ = assign_cpus(Topology::detect(transport_.size() > 1), options_.threads, local_rank_, local_size_);
  hello_.version = YAMATA_VERSION;
  hello_.host = host_;
  hello_.isa = cpu::isa_name(isa_);
  hello_.fingerprint = models_[static_cast<std::size_t>(hello_.model)]->file.fingerprint();
  models_[static_cast<std::size_t>(hello_.model)]->file.release_pages();
  hello_.available_bytes = available_memory_bytes();
  hello_.threads = static_cast<std::int32_t>(cpus_.size());
  return hello_;
}

StageFactory Job::stage_factory() {
  return [this](const wire::PipelinePlan& plan, std::size_t stage, CacheType cache_type) -> std::unique_ptr<StageModel> {
    const auto model = static_cast<std::size_t>(plan.model);
    if (model >= models_.size() || !models_[model])
      throw ClusterError("this rank was started with other flags than rank 0; give all ranks the same ones");
    if (!unit_) unit_ = std::make_unique<CpuUnit>(cpus_, isa_);
    const ContextOptions context{plan.cells, plan.sequences, cache_type};
    return std::make_unique<TransformerStage>(models_[model]->file, models_[model]->h, plan.layers.at(stage), context, *unit_);
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
  cluster.on_warning = [](const std::string& text) { fmt::print(stderr, "yamata: warning: {}\n", text); };
  if (isatty(STDERR_FILENO)) cluster.on_loading = LoadingBar();
  return cluster;
}

wire::Start Job::plan(const std::vector<wire::Hello>& hellos, std::int32_t sequences, std::int32_t room) const {
  wire::Start plan;
  plan.cache_type = options_.cache_type;
  plan.batch = options_.batch;
  plan.trace = !options_.trace_file.empty();
  std::vector<const ModelFile*> models;
  for (const auto& model : models_) models.push_back(&*model);
  for (const ModelPlace& place : layout_) {
    const auto& [file, h] = *models[static_cast<std::size_t>(place.model)];
    wire::PipelinePlan pipeline;
    pipeline.model = place.model;
    pipeline.first_rank = place.first_rank;
    pipeline.layers = split_layers(file, h, place.shares, place.ranks);
    const bool target = place.model == 0;
    pipeline.cells = context() + (target ? room : plan.draft.credit);
    pipeline.sequences = target ? sequences : plan.draft.credit + 1;
    plan.pipelines.push_back(std::move(pipeline));
  }
  for (const std::string& warning : plan_memory(models, plan, hellos)) fmt::print(stderr, "yamata: warning: {}\n", warning);
  return plan;
}

void Job::start(Head& head, std::int32_t sequences, std::int32_t room) {
  std::vector<std::uint64_t> fingerprints;
  for (const auto& model : models_) fingerprints.push_back(model->file.fingerprint());
  for (const auto& model : models_) model->file.release_pages();
  head.start(
      hello_, fingerprints, [&](const std::vector<wire::Hello>& hellos) { return plan(hellos, sequences, room); }, stage_factory());
}

}  // namespace yamata
