#pragma once
// Tensors of a file that no code reads: with one that has a meaning, the text would be that of another model.
#include <span>

#include "src/model/hyperparameters.hpp"

namespace yamata {

/// Tensors without which the text is the same.
struct HarmlessTensor {
  const char* name;  ///< with '*' for any characters
  const char* reason;
};
std::span<const HarmlessTensor> harmless_tensors();

/// Throws ModelError with the first tensor of the whole file, all stages' together, that is not read and not known to be harmless; and like
/// find_tensors. A file's multi-token prediction layers are checked where they are read.
void require_all_read(const gguf::File& file, const Hyperparameters& h);

}  // namespace yamata
