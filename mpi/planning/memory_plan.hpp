#pragma once
// Checks whether every rank's share fits into its machine's memory, before anything is allocated.
#include <span>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

/// Bytes of a stage's buffers for runs of `batch` tokens, without cache and weights: the residual stream; rows of the norm, of attention
/// and of the feed-forward network; the widest of them quantized; logits; partial results of threads that share a row's attention.
std::uint64_t buffer_bytes(const Hyperparameters& h, LayerRange range, int batch, int threads, const Shard& shard);
inline std::uint64_t buffer_bytes(const Hyperparameters& h, LayerRange range, int batch, int threads) {
  return buffer_bytes(h, range, batch, threads, Shard(h));
}

/// Bytes of memory that a rank's part of a model needs.
struct RankBytes {
  std::uint64_t weights = 0, cache_per_cell = 0, buffers = 0;
  std::uint64_t window_cache = 0;  ///< of layers with a sliding window or states; independent of the context length
  std::uint64_t in_file = 0;       ///< weights beside the others, which need memory only where the file is in memory
  std::uint64_t cache(std::uint64_t cells) const { return cache_per_cell * cells + window_cache; }
};
/// `window_cells`, `texts`: as in ContextOptions.
RankBytes rank_bytes(const ModelFile& model, LayerRange range, const Shard& shard, CacheTypes cache_types, int batch, int threads,
                     std::int32_t window_cells = 0, const TextSlots& texts = {});
/// Bytes that a device with memory of its own needs for these layers and a cache of `cells` cells. The embedding and the activations are in
/// the host's memory; the buffers are those of the device's operations.
RankBytes device_bytes(const ModelFile& model, LayerRange layers, const Shard& shard, CacheTypes cache_types, int batch, std::int64_t cells,
                       std::int32_t window_cells = 0, const TextSlots& texts = {});

/// Bytes of weights that leave the host's memory if a device with memory of its own holds these layers. The embedding stays on the host,
/// even if it is also the output matrix.
std::uint64_t weights_that_move(const ModelFile& model, LayerRange layers, const Shard& shard);

/// Number of cells of layers with a sliding window, or of inputs of layers with states, as in ContextOptions, for a cache of `cells` cells,
/// at most `guesses` guesses of all texts at a time and prompts in runs of `batch` tokens. 0 if that would not be fewer than `cells`. A
/// target counts accepted guesses that its states do not contain yet as guesses; a `draft` does not.
std::int32_t window_cells(const Hyperparameters& h, std::int32_t cells, std::int32_t guesses, std::int32_t batch, bool draft = false,
                          const TextSlots& texts = {});

/// Decides how many of the first layers of each of the target's stages its rank's device computes alone: as many as the rank was told, or,
/// for kLayersThatFit, as many as fit into the device's free memory beside cache, buffers and the drafts there. Call it first.
void plan_device_layers(std::span<const ModelFile* const> models, wire::Start& plan, const std::vector<wire::Hello>& hellos,
                        std::span<const RankBytes> draft_heads = {});

/// Marks the stages whose weights are packed as they are loaded. If `wanted`, these are the stages on hosts that have memory for the packed
/// weights of all their ranks in addition to cache and buffers; the file's weights are not needed any more after that. The other stages
/// read the file's weights for every token. Whole layers on a device with memory of its own are packed there in any case. `heads`: bytes of
/// the models whose number is beyond those of `models`.
void plan_packing(std::span<const ModelFile* const> models, wire::Start& plan, const std::vector<wire::Hello>& hellos, bool wanted,
                  std::span<const RankBytes> draft_heads = {});

/// Adds up, per host, what the ranks there will allocate: cache, and buffers for runs of the plan's batch. Throws UsageError if a host has
/// less memory, naming its rank and the largest -c that fits; or if a device has too little memory for its whole layers beside the drafts
/// there, naming how many fit, or for the drafts alone. Returns a warning for each host whose ranks' weights do not fit into memory beside
/// that: they would be read from disk for every token. `models` and then `heads`: in the order of the plan's model numbers.
std::vector<std::string> plan_memory(std::span<const ModelFile* const> models, const wire::Start& plan,
                                     const std::vector<wire::Hello>& hellos, std::span<const RankBytes> draft_heads = {});
/// Whether all that fits into memory, including weights.
bool fits_memory(std::span<const ModelFile* const> models, const wire::Start& plan, const std::vector<wire::Hello>& hellos,
                 std::span<const RankBytes> draft_heads = {});
/// Halves the number of the target's checkpoints, which use memory that nothing else needs, until it fits, or there are none.
void plan_checkpoints(std::span<const ModelFile* const> models, wire::Start& plan, const std::vector<wire::Hello>& hellos,
                      std::span<const RankBytes> draft_heads = {});

}  // namespace yamata
