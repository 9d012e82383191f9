#include "launch/program/job/job_rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "launch/program/output/version.hpp"
#include "mpi/protocol/validate.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"
#include "src/model/transformer_stage.hpp"

namespace yamata {
namespace {

bool has_several_hosts(const Transport& transport) {
  for (int rank = 1; rank < transport.size(); ++rank) {
    if (transport.host(rank) != transport.host(0)) return true;
  }
  return false;
}

ClusterError started_with_other_flags() {
  return ClusterError("this rank was started with other flags than rank 0; give all ranks the same ones");
}

}  // namespace

JobRank::JobRank(const JobOptions& options, const Transport& transport, RankLocation location)
    : options_(decided(options, transport.size())),
      location_(std::move(location)),
      layout_(options_.layout,
              {.ranks = transport.size(),
               .several_hosts = has_several_hosts(transport),
               .drafts = static_cast<int>(options_.models.drafts.size()),
               .draft_heads = static_cast<int>(options_.models.draft_heads.size())},
              options.layout.strategy),
      models_(options_.models, options_.fetch, location_.host),
      units_(options_.compute, location_, models_, layout_, {.batch = options_.cache.batch, .patience = options_.timeout / 4}),
      speed_(models_, units_, layout_, location_, options_.timeout / 4) {}

wire::Hello JobRank::open() {
  const cpu::Isa isa = cpu::choose_isa();
  models_.open(layout_, location_.rank, options_.cache.types);
  units_.find(isa);
  wire::Hello hello;
  hello.version = version();
  hello.host = location_.host;
  hello.fingerprints = models_.fingerprints();
  hello.model = static_cast<std::int32_t>(models_.own());
  hello.cpu_group = cpu_group();
  hello.machine = machine_id();
  hello.cpu = cpu_name();
  if (const char* factor = std::getenv("YAMATA_SLOW")) hello.cpu += fmt::format(", slowed {}", factor);
  hello.fetches_to_memory = models_.fetches_to_memory() ? 1 : 0;
  units_.describe(hello);
  speed_.prepare();
  models_.release_pages();
  return hello;
}

StageFactory JobRank::stage_factory() {
  return [this](const wire::PipelinePlan& plan, std::size_t place, CacheTypes cache_types,
                const GroupMember& group) -> std::unique_ptr<StageModel> {
    const auto model = static_cast<std::size_t>(plan.model);
    if (!models_.has(model)) throw started_with_other_flags();
    speed_.drop();
    if (model == 0) units_.keep_for_target();
    ComputeUnit& unit = units_.of(model);
    const ModelFile* file = models_.find(model);
    wire::validate_layers(plan, file ? file->h.layers : 1, 0);
    const auto packed = place < plan.packed.size() ? static_cast<wire::Packed>(plan.packed[place]) : wire::Packed::kNone;
    const std::int64_t first = place < plan.first_layers.size() ? plan.first_layers[place] : 0;
    const ContextOptions options{.cells = plan.cells,
                                 .sequences = plan.sequences,
                                 .cache_types = cache_types,
                                 .pack = packed == wire::Packed::kAll,
                                 .group = group,
                                 .context = context(),
                                 .window_cells = plan.window_cells,
                                 .texts = plan.texts(),
                                 .first_layers = model == 0 ? first : 0,
                                 .pack_first = packed == wire::Packed::kFirstLayers,
                                 .copy_others = model == 0 && units_.copies_others()};
    if (!file) return models_.make_draft_heads(model, options, unit);
    return std::make_unique<TransformerStage>(file->file, file->h, plan.layers.at(place), options, unit);
  };
}

LayerFactory JobRank::layer_factory() {
  return [this](LayerRange layers, const GroupMember& group) -> std::unique_ptr<StageModel> {
    constexpr int kCells = 16;
    if (!models_.has(0) || layers.end > models_.target().h.layers) throw started_with_other_flags();
    const ContextOptions options{.cells = kCells,
                                 .sequences = 1,
                                 .cache_types = options_.cache.types,
                                 .pack = options_.compute.repack,
                                 .group = group,
                                 .context = kCells,
                                 .only_time = true};
    auto stage = std::make_unique<TransformerStage>(models_.target().file, models_.target().h, layers, options, units_.of(0));
    stage->keep_columns();
    return stage;
  };
}

int JobRank::context() const {
  if (options_.cache.context > 0 || !models_.has(0)) return options_.cache.context;
  return static_cast<int>(std::min<std::int64_t>(models_.target().h.context, kDefaultContext));
}

}  // namespace yamata
