#pragma once
// Whether every rank's share fits into its machine's memory, asked before anything is allocated.
#include <span>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

/// What a rank of a stage needs for runs of `batch` tokens, cache and weights aside: the residual stream, norm, attention's and the
/// feed-forward's rows, the widest of them quantized, logits, and what threads that share a row's attention give each other.
std::uint64_t buffer_bytes(const Hyperparameters& h, LayerRange range, int batch, int threads, const Shard& shard);
inline std::uint64_t buffer_bytes(const Hyperparameters& h, LayerRange range, int batch, int threads) {
  return buffer_bytes(h, range, batch, threads, Shard(h));
}

/// What a rank's part of a model takes of its memory.
struct RankBytes {
  std::uint64_t weights = 0, cache_per_cell = 0, buffers = 0;
  std::uint64_t window_cache = 0;  ///< of layers with a window, whose cells are as many whatever the context is
  std::uint64_t cache(std::uint64_t cells) const { return cache_per_cell * cells + window_cache; }
};
/// `window_cells`: as ContextOptions has them.
RankBytes rank_bytes(const ModelFile& model, LayerRange range, const Shard& shard, CacheTypes cache_types, int batch, int threads,
                     std::int32_t window_cells = 0);
/// What a device takes that has these layers in memory of its own, for a context of so many cells: the embedding is looked up by the host,
/// activations are in the host's memory, buffers are what its operations need beside them.
RankBytes device_bytes(const ModelFile& model, LayerRange layers, const Shard& shard, CacheTypes cache_types, int batch, std::int64_t cells,
                       std::int32_t window_cells = 0);

/// Weights that the host does not hold where a device has these layers in memory of its own. The embedding stays, be it the output, too.
std::uint64_t weights_that_move(const ModelFile& model, LayerRange layers, const Shard& shard);

/// Cells of layers with a window, as ContextOptions has them, for texts written in a cache of `cells` with so many guesses at a time and
/// prompts in runs of `batch`. 0 where that would be no fewer.
std::int32_t window_cells(const Hyperparameters& h, std::int32_t cells, std::int32_t guesses, std::int32_t batch);

/// Marks the stages whose weights are packed as they are loaded: where `wanted`, those on hosts with memory for a second form of
/// the weights of all their ranks, the one that stays. The others read their weights from the file for every token, but for whole layers on
/// a device with memory of its own, which are packed there in any case. `heads`: what each model takes whose number is beyond those of
/// `models`.
void plan_packing(std::span<const ModelFile* const> models, wire::Start& plan, const std::vector<wire::Hello>& hellos, bool wanted,
                  std::span<const RankBytes> heads = {});

/// Adds up, per host, what the ranks there will allocate: cache and buffers for runs of the plan's batch. Throws UsageError where
/// a host has less than that, naming its rank, and the largest -c that fits, or where a device
/// has no room for its whole layers, and says how many fit. Returns a warning for each host whose ranks' weights
/// do not fit into memory beside that: they would be read from disk for every token. `models`, and after them `heads`: as the plan numbers
/// them.
std::vector<std::string> plan_memory(std::span<const ModelFile* const> models, const wire::Start& plan,
                                     const std::vector<wire::Hello>& hellos, std::span<const RankBytes> heads = {});

}  // namespace yamata
