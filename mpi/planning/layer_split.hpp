#pragma once
// Which of a model's ranks holds which layers.
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "src/gguf/gguf.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// Consecutive ranges of at least one layer for `ranks` ranks. With `weights`, rank k gets floor(weight * layers) layers, and the last rank
/// gets the rest (PipeInfer's rule). Empty `weights` split by bytes; the first and the last rank also hold embedding and output. Throws
/// UsageError if the numbers of weights and ranks differ, or if there are more ranks than layers; the message counts the `others` of the
/// job, such as drafters, too.
std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, const std::vector<double>& weights, int ranks,
                                     int others = 0);

/// A rank's speed and capacity.
struct RankStrength {
  double ns_per_byte = 1;  ///< time per byte of weights, in one unit for all ranks
  std::uint64_t capacity_bytes = std::numeric_limits<std::uint64_t>::max();
};

/// The expected work of a job; the default is one token of text.
struct Workload {
  std::int64_t prompt_tokens = 0, generated_tokens = 1;
  double cache_bytes_per_token = 0;  ///< of one layer; 0: attention takes no time
};

/// The split whose slowest rank takes the least time; a rank's time is its ns_per_byte times the cost of its layers. Among such splits, the
/// most even one is taken; for equal ranks, this is the split by bytes. Each rank gets at least one layer, and at most what its capacity
/// holds at `cache_bytes` per layer. Empty if no split fits. There must be at most as many ranks as layers.
std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, std::span<const RankStrength> ranks,
                                     std::uint64_t cache_bytes, const Workload& work = {});

/// Bytes of weights and cache that each layer reads for the work. The last layer's include the output matrix, which a prompt does not need.
/// Weights that are read once for many tokens of a prompt count by their compute time. The embedding counts nothing, because it is a
/// lookup.
std::vector<double> layer_costs(const gguf::File& file, const Hyperparameters& h, const Workload& work = {});

}  // namespace yamata
