#pragma once
// The sizes of tensors' dimensions, by the model's hyperparameters.
#include <cstdint>

#include "src/model/hyperparameters.hpp"

namespace yamata {

std::int64_t length(Extent extent, const Hyperparameters& h, const LayerSpec& spec);

/// Part of a fused tensor: the number of rows (for a vector: values) of the whole, and those before this part.
struct Fused {
  std::int64_t all = 0, before = 0;
};

Fused fused_rows(const TensorRow& row, const Hyperparameters& h);

}  // namespace yamata
