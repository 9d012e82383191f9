#pragma once
// Which rank holds which layers.
#include <string>
#include <vector>

#include "src/gguf/gguf.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// Parses `--layer-split`: `auto`, or one weight per rank such as `0.5,0.3,0.2`. Returns the weights, empty for auto.
/// Throws UsageError for anything else.
std::vector<double> parse_layer_split(const std::string& text);

/// Consecutive ranges of at least one layer for `ranks` ranks. Rank k of a given split ends at floor(weight * layers) more
/// layers than rank k-1, the last takes the rest (PipeInfer's rule); an empty `weights` splits by bytes, the first and the last
/// rank carrying embedding and output. Throws UsageError where weights and ranks differ or ranks outnumber layers.
std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, const std::vector<double>& weights, int ranks);

}  // namespace yamata
