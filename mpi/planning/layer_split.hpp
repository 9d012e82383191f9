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
  double ns_per_byte = 1;  ///< time per byte of weights, in one unit for all ranks
  std::uint64_t capacity_bytes = std::numeric_limits<std::uint64_t>::max();
};

/// What a job is expected to compute: a token of text, where nothing else is known.
struct Workload {
  std::int64_t prompt_tokens = 0, generated_tokens = 1;
  double cache_bytes_per_token = 0;  ///< of one layer; 0: attention takes no time
};

/// The split whose slowest rank takes the least time, a rank's time being its ns_per_byte times the cost of its layers, and the most even
/// one of those: of equal ranks, the split by bytes. Each rank gets a layer at least, and no more than its capacity holds at `cache_bytes`
/// per layer. Empty where no split fits. Ranks are at most as many as layers.
std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, std::span<const RankStrength> ranks,
                                     std::uint64_t cache_bytes, const Workload& work = {});

/// Bytes that each layer reads in the course of the work, weights and cache; the last layer's with the output, which a prompt does without.
/// Weights that are read once for many tokens of a prompt count by what computing with them takes. An embedding is looked up and weighs
/// nothing.
std::vector<double> layer_costs(const gguf::File& file, const Hyperparameters& h, const Workload& work = {});

}  // namespace yamata
