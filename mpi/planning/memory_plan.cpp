#include "mpi/planning/memory_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cache/state_cells.hpp"
#include "cache/window_cells.hpp"
#include "node/counted.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/device_scratch.hpp"
#include "node/error.hpp"
#include "src/model/layer_shapes.hpp"
#include "src/model/stage_buffers.hpp"
#include "src/model/weights.hpp"
#include "src/speculation/step_cost.hpp"

namespace yamata {
namespace {

struct Host {
  std::size_t first_rank = 0;
  std::uint64_t available = 0;
  std::string name{};  // of a machine, or of the devices of a rank
  bool device = false;
  RankBytes bytes{};          // of all its ranks
  std::uint64_t fetched = 0;  // weights as they are in the file, which stay in memory
};

/// A number of bytes as text, in MiB, or in KiB if it is smaller than 1 MiB.
std::string size(std::uint64_t bytes) { return bytes >> 20 > 0 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10); }

/// Bytes of some of a rank's layers, in a pipeline of one of `models`.
RankBytes bytes_of_layers(std::span<const ModelFile* const> models, const wire::Start& plan, const wire::PipelinePlan& pipeline,
                          std::size_t place, LayerRange layers, int threads) {
  const ModelFile& model = *models[static_cast<std::size_t>(pipeline.model)];
  require_storable(plan.cache_types, model.h.head_dim);
  const GroupMember member = pipeline.member(place);
  return rank_bytes(model, layers, Shard(model.h, member.shares, member.member), plan.cache_types, plan.batch, threads,
                    pipeline.window_cells, pipeline.texts());
}

/// Bytes on a device for some of a rank's layers.
RankBytes device_bytes(std::span<const ModelFile* const> models, const wire::Start& plan, const wire::PipelinePlan& pipeline,
                       std::size_t place, LayerRange layers) {
  const ModelFile& model = *models[static_cast<std::size_t>(pipeline.model)];
  const GroupMember member = pipeline.member(place);
  return device_bytes(model, layers, Shard(model.h, member.shares, member.member), plan.cache_types, plan.batch, pipeline.cells,
                      pipeline.window_cells, pipeline.texts());
}

/// Number of a rank's first layers of the target that its device computes alone.
std::int64_t first_layers(const wire::PipelinePlan& pipeline, std::size_t place, const wire::Hello& hello) {
  if (pipeline.model != 0) return 0;
  if (!pipeline.first_layers.empty()) return pipeline.first_layers[place];
  return std::min<std::int64_t>(hello.device_layers, pipeline.layers[place].count());
}

/// Bytes of a rank's drafts and heads on the device that also has whole layers of the target.
std::uint64_t drafts_bytes(std::span<const ModelFile* const> models, std::span<const RankBytes> draft_heads, const wire::Start& plan,
                           int rank) {
  std::uint64_t all = 0;
  for (const wire::PipelinePlan& pipeline : plan.pipelines) {
    const auto place = pipeline.place_of(rank);
    if (pipeline.model == 0 || !place) continue;
    const auto number = static_cast<std::size_t>(pipeline.model);
    RankBytes bytes;
    if (number < models.size()) {
      bytes = device_bytes(models, plan, pipeline, *place, pipeline.layers[*place]);
    } else {
      const Hyperparameters& h = models.front()->h;
      bytes = draft_heads[number - models.size()];
      bytes.buffers += device_scratch_bytes({.rows = plan.batch, .widest = h.widest_input(), .heads = h.heads, .head_dim = h.widest_head()},
                                            pipeline.cells);
    }
    all += bytes.weights + bytes.cache(static_cast<std::uint64_t>(pipeline.cells)) + bytes.buffers;
  }
  return all;
}

/// Weights on a device that computes `all` layers, of which so many first ones stay there; the matrices of the others are copied to it for
/// each run, into memory for two layers. Their vectors stay, as does what is outside the layers.
std::uint64_t weights_with_copies(const ModelFile& model, LayerRange all, std::int64_t staying, const Shard& shard) {
  std::uint64_t stay = 0;
  std::map<std::int64_t, std::uint64_t> copied;  // by layer
  for (const FoundTensor& found : find_tensors(model.file, model.h, all, shard)) {
    const bool copies = found.layer >= all.begin + staying && (found.rows > 1 || found.copy >= 0);
    if (!is_looked_up(found.role)) (copies ? copied[found.layer] : stay) += found.held_bytes();
  }
  std::uint64_t most = 0;
  for (const auto& [layer, bytes] : copied) most = std::max(most, bytes);
  return stay + most * std::min<std::uint64_t>(2, copied.size());
}

/// What of a draft's memory is the host's, if the device that has it has memory of its own.
RankBytes beside_device(RankBytes bytes, const ModelFile* draft, LayerRange layers) {
  bytes.cache_per_cell = bytes.window_cache = 0;
  bytes.weights -= draft ? std::min(bytes.weights, weights_that_move(*draft, layers, Shard(draft->h))) : bytes.weights;
  return bytes;
}

/// Bytes of a rank's part of a pipeline, whose model is one of `models` or of `heads`. For layers in a device's own memory, only their
/// inputs and outputs count.
RankBytes part_bytes(std::span<const ModelFile* const> models, std::span<const RankBytes> draft_heads, const wire::Start& plan,
                     const wire::PipelinePlan& pipeline, std::size_t place, const wire::Hello& hello) {
  const auto number = static_cast<std::size_t>(pipeline.model);
  const LayerRange all = pipeline.layers[place];
  const bool drafts_apart = number > 0 && hello.device_drafts && !hello.device_is_unified;
  if (number >= models.size()) {
    const RankBytes& heads = draft_heads[number - models.size()];
    return drafts_apart ? beside_device(heads, nullptr, all) : heads;
  }
  RankBytes bytes = bytes_of_layers(models, plan, pipeline, place, all, hello.threads);
  if (hello.lies_on_devices()) bytes.buffers += device_bytes(models, plan, pipeline, place, all).buffers;
  if (drafts_apart) return beside_device(bytes, models[number], all);
  const std::int64_t apart = hello.device_is_unified ? 0 : first_layers(pipeline, place, hello);
  const bool copies = number == 0 && hello.device_copies == 1;
  if (apart == 0 && !copies) return bytes;
  const LayerRange there{all.begin, all.begin + apart};  // copied layers have their cache there, but not their weights
  const RankBytes device = device_bytes(models, plan, pipeline, place, copies ? all : there);
  const GroupMember member = pipeline.member(place);
  if (apart > 0)
    bytes.weights -=
        std::min(bytes.weights, weights_that_move(*models[number], there, Shard(models[number]->h, member.shares, member.member)));
  bytes.cache_per_cell -= device.cache_per_cell;
  bytes.window_cache -= device.window_cache;
  return bytes;
}

std::map<std::string, Host> add_up(std::span<const ModelFile* const> models, const wire::Start& plan,
                                   const std::vector<wire::Hello>& hellos, std::span<const RankBytes> draft_heads) {
  std::map<std::string, Host> hosts;
  for (const wire::PipelinePlan& pipeline : plan.pipelines) {
    for (std::size_t s = 0; s < pipeline.layers.size(); ++s) {
      const std::size_t rank = static_cast<std::size_t>(pipeline.ranks[s]);
      const wire::Hello& hello = hellos[rank];
      const bool device = hello.lies_on_devices();
      const Host first{.first_rank = rank,
                       .available = hello.available_bytes,
                       .name = device ? hello.host + ", " + hello.device : hello.host,
                       .device = device};
      Host& host = hosts.try_emplace(wire::memory_of(hellos, rank), first).first->second;
      host.available = std::min(host.available, hellos[rank].available_bytes);
      const RankBytes bytes = part_bytes(models, draft_heads, plan, pipeline, s, hello);
      host.bytes.cache_per_cell += bytes.cache_per_cell;
      host.bytes.window_cache += bytes.window_cache;
      host.bytes.buffers += bytes.buffers;
      const std::uint64_t weights = bytes.weights + (hello.fetches_to_memory == 1 ? bytes.in_file : 0);
      host.bytes.weights += weights;
      if (hello.fetches_to_memory == 1 && !device) host.fetched += bytes.weights;
    }
  }
  return hosts;
}

bool holds_weights(const Host& host, std::uint64_t cells) {
  return host.bytes.cache(cells) + host.bytes.buffers + host.bytes.weights <= host.available;
}

bool holds_packed_weights(const Host& host, std::uint64_t cells) {
  return host.bytes.cache(cells) + host.bytes.buffers + host.bytes.weights + host.fetched <= host.available;
}

/// Bytes that the device of a rank needs for so many of its layers of the target, and for the drafts there.
/// `copies`: and for the others, which are copied to it.
std::uint64_t device_needs(std::span<const ModelFile* const> models, const wire::Start& plan, std::size_t place, std::int64_t layers,
                           std::uint64_t drafts, bool copies) {
  const wire::PipelinePlan& target = plan.pipelines.front();
  const LayerRange all = target.layers[place];
  if (copies ? all.count() == 0 : layers == 0) return drafts;
  RankBytes bytes = device_bytes(models, plan, target, place, {all.begin, copies ? all.end : all.begin + layers});
  const GroupMember member = target.member(place);
  const ModelFile& model = *models.front();
  if (copies) bytes.weights = weights_with_copies(model, all, layers, Shard(model.h, member.shares, member.member));
  return bytes.weights + bytes.cache(static_cast<std::uint64_t>(target.cells)) + bytes.buffers + drafts;
}

/// Throws UsageError if a device has too little memory for the layers that it is to compute alone, or for what drafts there.
void require_device_layers(std::span<const ModelFile* const> models, const wire::Start& plan, const std::vector<wire::Hello>& hellos,
                           std::span<const RankBytes> draft_heads) {
  const wire::PipelinePlan& target = plan.pipelines.front();
  for (std::size_t s = 0; s < target.layers.size(); ++s) {
    const auto rank = static_cast<std::size_t>(target.ranks[s]);
    const wire::Hello& hello = hellos[rank];
    const std::uint64_t drafts = hello.device_drafts ? drafts_bytes(models, draft_heads, plan, target.ranks[s]) : 0;
    const auto needs = [&](std::int64_t layers) { return device_needs(models, plan, s, layers, drafts, hello.device_copies == 1); };
    const std::int64_t asked = first_layers(target, s, hello);
    if (needs(asked) <= hello.device_bytes) continue;
    std::int64_t fits = asked;
    while (fits > 0 && needs(fits) > hello.device_bytes) --fits;
    const bool copies = hello.device_copies == 1 && asked < target.layers[s].count();
    std::vector<std::string> parts;
    if (asked > 0) parts.push_back(counted(asked, "whole layer"));
    if (copies) parts.emplace_back("copied layers");
    if (drafts > 0) parts.emplace_back("what drafts there");
    const bool drafts_fit = drafts <= hello.device_bytes, one = asked + (drafts > 0) == 1 && !copies;
    const std::string remedy = !drafts_fit ? "the drafts alone do not fit: leave out --draft-units, or lower -c or -b"
                               : fits > 0  ? fmt::format("at most -ngl {} fits", fits)
                                           : "none fits: leave out -ngl, or lower -c or -b";
    throw UsageError(fmt::format("{} take{} {} on rank {} ({}, {}), whose device has {} free; {}", fmt::join(parts, " and "),
                                 one ? "s" : "", size(needs(asked)), rank, hello.host, hello.device, size(hello.device_bytes), remedy));
  }
}

/// A state is put aside where guesses branch: at most at every second one on the way to the last. `inputs`: see StateCells::enough.
std::int64_t most_states_aside(std::int32_t inputs) { return inputs / 4; }

std::uint64_t target_cells(const wire::Start& plan) { return static_cast<std::uint64_t>(plan.pipelines.front().cells); }

/// Query heads on this rank in the layer that has the most here.
std::int64_t most_query_heads(const Hyperparameters& h, LayerRange layers, const Shard& shard) {
  std::int64_t most = 0;
  const LayerShapes shapes(h, layers, shard);
  for (const LayerShape& shape : shapes.all()) most = std::max(most, shape.shard.query_heads());
  return most;
}

}  // namespace

std::uint64_t buffer_bytes(const Hyperparameters& h, LayerRange range, int batch, int threads, const Shard& shard) {
  const std::int64_t floats = StageBuffers::of(h, range, shard).floats(batch, batch);
  const ScratchNeeds needs{.rows = batch,
                           .widest = h.widest_input(),
                           .heads = most_query_heads(h, range, shard),
                           .head_dim = h.widest_head(),
                           .scores = h.is_sparse()};
  return static_cast<std::uint64_t>(floats) * sizeof(float) + CpuUnit::scratch_bytes(needs, threads);
}

RankBytes rank_bytes(const ModelFile& model, LayerRange range, const Shard& shard, CacheTypes cache_types, int batch, int threads,
                     std::int32_t window_cells, const TextSlots& texts) {
  const auto& [file, h] = model;
  const std::int64_t recurrent = recurrent_layers(h, range);
  const std::size_t in_windows = cell_bytes(h, range, shard, cache_types, true);
  const bool reuses = window_cells > 0 && !h.is_recurrent();
  return {
      .weights = stage_bytes(file, h, range, shard),
      .cache_per_cell = cell_bytes(h, range, shard, cache_types, false) + (reuses ? 0 : in_windows) +
                        (window_cells > 0 ? 0 : StateStore::bytes_for(shard.state(), recurrent, {1, 0}) + ngram_bytes(h, range, {1, 0})),
      .buffers = buffer_bytes(h, range, batch, threads, shard),
      .window_cache = (reuses ? in_windows * static_cast<std::size_t>(window_cells) : 0) +
                      StateStore::bytes_for(shard.state(), recurrent, {window_cells, StateCells::states(texts)}) +
                      ngram_bytes(h, range, {window_cells, StateCells::states(texts)}),
      .in_file = in_file_bytes(file, h, range, shard)};
}

RankBytes device_bytes(const ModelFile& model, LayerRange layers, const Shard& shard, CacheTypes cache_types, int batch, std::int64_t cells,
                       std::int32_t window_cells, const TextSlots& texts) {
  RankBytes bytes = rank_bytes(model, layers, shard, cache_types, batch, 1, window_cells, texts);
  bytes.buffers = device_scratch_bytes({.rows = batch,
                                        .widest = model.h.widest_input(),
                                        .heads = most_query_heads(model.h, layers, shard),
                                        .head_dim = model.h.widest_head(),
                                        .logits = batch * StageBuffers::of(model.h, layers, shard).logits,
                                        .scores = model.h.is_sparse()},
                                       cells, most_states_aside(window_cells) * shard.state().state_floats());
  bytes.weights = 0;
  for (const FoundTensor& found : find_tensors(model.file, model.h, layers, shard))
    bytes.weights += is_looked_up(found.role) ? 0 : found.held_bytes();
  return bytes;
}

std::uint64_t weights_that_move(const ModelFile& model, LayerRange layers, const Shard& shard) {
  std::uint64_t bytes = stage_bytes(model.file, model.h, layers, shard);
  for (const FoundTensor& found : find_tensors(model.file, model.h, layers, shard))
    bytes -= is_looked_up(found.role) && !stays_in_file(found.role) ? found.held_bytes() : 0;
  return bytes;
}

std::int32_t window_cells(const Hyperparameters& h, std::int32_t cells, std::int32_t guesses, std::int32_t batch, bool draft,
                          const TextSlots& texts) {
  if (h.layer.window == 0 && !h.is_recurrent()) return 0;
  if (h.is_recurrent())
    return static_cast<std::int32_t>(std::min<std::int64_t>(cells, StateCells::enough(draft ? 2 * guesses : guesses, texts.slots)));
  // A draft reads missed text in one run, unless it is as long as a prompt.
  const std::int64_t enough =
      WindowCells::enough(h.layer.window, std::max({batch, StepCost::kOfAText, texts.slots}), guesses, texts.slots + texts.checkpoints);
  return enough < cells ? static_cast<std::int32_t>(enough) : 0;
}

void plan_device_layers(std::span<const ModelFile* const> models, wire::Start& plan, const std::vector<wire::Hello>& hellos,
                        std::span<const RankBytes> draft_heads) {
  // Left to the driver, and to arguments of kernels: a part of the free memory, and these bytes.
  constexpr std::uint64_t kReserve = 32, kReserveBytes = 4 << 20;
  wire::PipelinePlan& target = plan.pipelines.front();
  target.first_layers.clear();
  for (std::size_t s = 0; s < target.layers.size(); ++s) {
    const wire::Hello& hello = hellos[static_cast<std::size_t>(target.ranks[s])];
    std::int64_t layers = std::min<std::int64_t>(hello.device_layers, target.layers[s].count());
    if (hello.device_layers == wire::kLayersThatFit) {
      const std::uint64_t drafts = hello.device_drafts ? drafts_bytes(models, draft_heads, plan, target.ranks[s]) : 0;
      const std::uint64_t reserve = hello.device_bytes / kReserve + kReserveBytes;
      const std::uint64_t room = hello.device_bytes - std::min(hello.device_bytes, reserve);
      while (layers > 0 && device_needs(models, plan, s, layers, drafts, hello.device_copies == 1) > room) --layers;
    }
    target.first_layers.push_back(static_cast<std::int32_t>(layers));
  }
}

void plan_packing(std::span<const ModelFile* const> models, wire::Start& plan, const std::vector<wire::Hello>& hellos, bool wanted,
                  std::span<const RankBytes> draft_heads) {
  const auto hosts = add_up(models, plan, hellos, draft_heads);
  for (wire::PipelinePlan& pipeline : plan.pipelines) {
    pipeline.packed.clear();
    for (const std::int32_t rank : pipeline.ranks) {
      const wire::Hello& hello = hellos[static_cast<std::size_t>(rank)];
      const Host& host = hosts.at(wire::memory_of(hellos, static_cast<std::size_t>(rank)));
      const bool apart = pipeline.model == 0 && hello.device_layers > 0 && !hello.device_is_unified;
      using enum wire::Packed;
      const wire::Packed packed = !wanted ? kNone : holds_packed_weights(host, target_cells(plan)) ? kAll : apart ? kFirstLayers : kNone;
      pipeline.packed.push_back(static_cast<std::uint8_t>(packed));
    }
  }
}

std::vector<std::string> plan_memory(std::span<const ModelFile* const> models, const wire::Start& plan,
                                     const std::vector<wire::Hello>& hellos, std::span<const RankBytes> draft_heads) {
  const std::uint64_t cells = target_cells(plan);
  require_device_layers(models, plan, hellos, draft_heads);
  std::vector<std::string> warnings;
  for (const auto& [memory, host] : add_up(models, plan, hellos, draft_heads)) {
    const std::uint64_t cache = host.bytes.cache(cells);
    if (cache + host.bytes.buffers > host.available) {
      const std::uint64_t fixed = host.bytes.buffers + host.bytes.window_cache;
      const std::uint64_t fits =
          host.available > fixed ? (host.available - fixed) / std::max<std::uint64_t>(1, host.bytes.cache_per_cell) : 0;
      throw UsageError(fmt::format("a cache of {} tokens, the context and guesses, takes {} on rank {} ({}), which has {} free; {}", cells,
                                   size(cache + host.bytes.buffers), host.first_rank, host.name, size(host.available),
                                   fits > 0 ? fmt::format("at most -c {} fits", fits) : "no context fits: lower -b"));
    }
    if (!holds_weights(host, cells) && (host.device || host.fetched > 0))
      throw UsageError(
          fmt::format("weights and cache take {} on rank {} ({}), which has {} free; give it fewer layers with "
                      "--layer-split, a smaller -c, or {}",
                      size(cache + host.bytes.buffers + host.bytes.weights), host.first_rank, host.name, size(host.available),
                      host.device ? "--units cpu" : "--fetch auto instead of memory"));
    if (!holds_weights(host, cells)) {
      warnings.push_back(
          fmt::format("rank {} ({}) has {} free for {} of weights beside its cache and will read them from disk for every token; "
                      "give it fewer layers with --layer-split, or lower -c",
                      host.first_rank, host.name, size(host.available), size(host.bytes.weights)));
    }
  }
  return warnings;
}

bool fits_memory(std::span<const ModelFile* const> models, const wire::Start& plan, const std::vector<wire::Hello>& hellos,
                 std::span<const RankBytes> draft_heads) {
  try {
    return plan_memory(models, plan, hellos, draft_heads).empty();
  } catch (const UsageError&) {
    return false;
  }
}

void plan_checkpoints(std::span<const ModelFile* const> models, wire::Start& plan, const std::vector<wire::Hello>& hellos,
                      std::span<const RankBytes> draft_heads) {
  wire::PipelinePlan& target = plan.pipelines.front();
  const auto window = static_cast<std::int32_t>(models.front()->h.is_recurrent() ? 1 : models.front()->h.layer.window);
  while (target.checkpoints > 0 && !fits_memory(models, plan, hellos, draft_heads)) {
    const std::int32_t fewer = target.checkpoints / 2;
    target.window_cells -= (target.checkpoints - fewer) * (window - 1);
    target.checkpoints = fewer;
  }
}

}  // namespace yamata
