#include "mpi/planning/memory_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cache/window_cells.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "src/model/stage_buffers.hpp"
#include "src/model/weights.hpp"
#include "src/speculation/step_cost.hpp"

namespace yamata {
namespace {

struct Host {
  std::size_t first_rank = 0;
  std::uint64_t available = 0;
  std::string name{};  // of a machine, or of a rank's devices, which are its own
  bool device = false;
  RankBytes bytes{};  // of all its ranks
};

constexpr std::uint64_t mib(std::uint64_t bytes) { return bytes >> 20; }

/// What a rank's part of a pipeline takes, be its model one of `models` or of heads.
RankBytes part_bytes(std::span<const ModelFile* const> models, std::span<const RankBytes> heads, const wire::Start& plan,
                     const wire::PipelinePlan& pipeline, std::size_t place, int threads) {
  const auto number = static_cast<std::size_t>(pipeline.model);
  if (number >= models.size()) return heads[number - models.size()];
  const ModelFile& model = *models[number];
  require_storable(plan.cache_types, model.h.head_dim);
  const GroupMember member = pipeline.member(place);
  return rank_bytes(model, pipeline.layers[place], Shard(model.h, member.shares, member.member), plan.cache_types, plan.batch, threads,
                    pipeline.window_cells);
}

/// Whose memory a rank takes: its machine's, or its devices'.
std::string memory_of(const std::vector<wire::Hello>& hellos, std::size_t rank) {
  const wire::Hello& hello = hellos[rank];
  return hello.device.empty() ? hello.host : fmt::format("{}: devices of rank {}", hello.host, rank);
}

std::map<std::string, Host> add_up(std::span<const ModelFile* const> models, const wire::Start& plan,
                                   const std::vector<wire::Hello>& hellos, std::span<const RankBytes> heads) {
  std::map<std::string, Host> hosts;
  for (const wire::PipelinePlan& pipeline : plan.pipelines) {
    for (std::size_t s = 0; s < pipeline.layers.size(); ++s) {
      const std::size_t rank = static_cast<std::size_t>(pipeline.ranks[s]);
      const wire::Hello& hello = hellos[rank];
      const bool device = !hello.device.empty();
      const Host first{.first_rank = rank,
                       .available = hello.available_bytes,
                       .name = device ? hello.host + ", " + hello.device : hello.host,
                       .device = device};
      Host& host = hosts.try_emplace(memory_of(hellos, rank), first).first->second;
      host.available = std::min(host.available, hellos[rank].available_bytes);
      const RankBytes bytes = part_bytes(models, heads, plan, pipeline, s, hellos[rank].threads);
      host.bytes.cache_per_cell += bytes.cache_per_cell;
      host.bytes.window_cache += bytes.window_cache;
      host.bytes.buffers += bytes.buffers;
      host.bytes.weights += bytes.weights;
    }
  }
  return hosts;
}

bool holds_weights(const Host& host, std::uint64_t cells) {
  return host.bytes.cache(cells) + host.bytes.buffers + host.bytes.weights <= host.available;
}

std::uint64_t target_cells(const wire::Start& plan) { return static_cast<std::uint64_t>(plan.pipelines.front().cells); }

}  // namespace

std::uint64_t buffer_bytes(const Hyperparameters& h, LayerRange range, int batch, int threads, const Shard& shard) {
  const std::int64_t floats = StageBuffers::of(h, range, shard).floats(batch, batch);
  const ScratchNeeds needs{.rows = batch, .widest = h.widest_input(), .heads = shard.query_heads(), .head_dim = h.head_dim};
  return static_cast<std::uint64_t>(floats) * sizeof(float) + CpuUnit::scratch_bytes(needs, threads);
}

RankBytes rank_bytes(const ModelFile& model, LayerRange range, const Shard& shard, CacheTypes cache_types, int batch, int threads,
                     std::int32_t window_cells) {
  const auto& [file, h] = model;
  const std::int64_t windowed = window_cells > 0 ? windowed_layers(h, range) : 0;
  return {.weights = stage_bytes(file, h, range, shard),
          .cache_per_cell = KvStore::bytes_for(shard.cache_shape(range.count() - windowed), 1, cache_types),
          .buffers = buffer_bytes(h, range, batch, threads, shard),
          .window_cache = KvStore::bytes_for(shard.cache_shape(windowed), window_cells, cache_types)};
}

std::int32_t window_cells(const Hyperparameters& h, std::int32_t cells, std::int32_t guesses, std::int32_t batch) {
  if (h.layer.window == 0) return 0;
  // A draft reads the text that it missed in one run, where that is no prompt.
  const std::int64_t enough = WindowCells::enough(h.layer.window, std::max(batch, StepCost::kWidest), guesses);
  return enough < cells ? static_cast<std::int32_t>(enough) : 0;
}

void plan_packing(std::span<const ModelFile* const> models, wire::Start& plan, const std::vector<wire::Hello>& hellos, bool wanted,
                  std::span<const RankBytes> heads) {
  const auto hosts = add_up(models, plan, hellos, heads);
  for (wire::PipelinePlan& pipeline : plan.pipelines) {
    pipeline.packed.clear();
    for (const std::int32_t rank : pipeline.ranks) {
      const Host& host = hosts.at(memory_of(hellos, static_cast<std::size_t>(rank)));
      pipeline.packed.push_back(wanted && holds_weights(host, target_cells(plan)));
    }
  }
}

std::vector<std::string> plan_memory(std::span<const ModelFile* const> models, const wire::Start& plan,
                                     const std::vector<wire::Hello>& hellos, std::span<const RankBytes> heads) {
  const std::uint64_t cells = target_cells(plan);
  std::vector<std::string> warnings;
  for (const auto& [memory, host] : add_up(models, plan, hellos, heads)) {
    const std::uint64_t cache = host.bytes.cache(cells);
    if (cache + host.bytes.buffers > host.available) {
      const std::uint64_t fixed = host.bytes.buffers + host.bytes.window_cache;
      const std::uint64_t fits =
          host.available > fixed ? (host.available - fixed) / std::max<std::uint64_t>(1, host.bytes.cache_per_cell) : 0;
      throw UsageError(fmt::format("a context of {} tokens takes {} MiB on rank {} ({}), which has {} MiB free; at most -c {} fits", cells,
                                   mib(cache + host.bytes.buffers), host.first_rank, host.name, mib(host.available), fits));
    }
    if (!holds_weights(host, cells) && host.device)
      throw UsageError(
          fmt::format("weights and cache take {} MiB on rank {} ({}), which has {} MiB free; give it fewer layers with "
                      "--layer-split, a smaller -c, or --units cpu",
                      mib(cache + host.bytes.buffers + host.bytes.weights), host.first_rank, host.name, mib(host.available)));
    if (!holds_weights(host, cells)) {
      warnings.push_back(
          fmt::format("rank {} ({}) has {} MiB free for {} MiB of weights beside its cache and will read them from disk for every token; "
                      "give it fewer layers with --layer-split, or lower -c",
                      host.first_rank, host.name, mib(host.available), mib(host.bytes.weights)));
    }
  }
  return warnings;
}

}  // namespace yamata
