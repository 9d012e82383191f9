#pragma once
// Which of a model's ranks holds which layers.
#include <vector>

#include "src/gguf/gguf.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// Consecutive ranges of at least one layer for `ranks` ranks. Rank k of a given split ends at floor(weight * layers) more
/// layers than rank k-1, the last takes the rest (PipeInfer's rule); an empty `weights` splits by bytes, the first and the last
/// rank carrying embedding and output. Throws UsageError where weights and ranks differ or ranks outnumber layers.
std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, const std::vector<double>& weights, int ranks);

}  // namespace yamata
