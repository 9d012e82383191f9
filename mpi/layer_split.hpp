#pragma once
// Which of a model's ranks holds which layers.
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "src/gguf/gguf.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// Consecutive ranges of at least one layer for `ranks` ranks. Rank k of a given split ends at floor(weight * layers) more
/// layers than rank k-1, the last takes the rest (PipeInfer's rule); an empty `weights` splits by bytes, the first and the last
/// rank carrying embedding and output. Throws UsageError where weights and ranks differ or ranks outnumber layers.
std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, const std::vector<double>& weights, int ranks);

/// What a rank brings to a split.
struct RankStrength {
  double pace = 1;  ///< time per byte of weights, in one unit for all ranks
  std::uint64_t room_bytes = std::numeric_limits<std::uint64_t>::max();
};

/// The split whose slowest rank takes the least time, a rank's time being its pace times the bytes it reads, and the most even one of
/// those: of equal ranks, the split by bytes. Each rank gets a layer at least, and no more than its room holds at `cache_bytes` per layer.
/// Empty where no split fits. Ranks are at most as many as layers.
std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, std::span<const RankStrength> ranks,
                                     std::uint64_t cache_bytes);

/// Bytes that each layer reads for a token; the last layer's with the output. An embedding is looked up and weighs nothing.
std::vector<double> layer_costs(const gguf::File& file, const Hyperparameters& h);

}  // namespace yamata
