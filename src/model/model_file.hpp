#pragma once
// A model file with its hyperparameters.
#include <string>

#include "src/gguf/gguf.hpp"
#include "src/model/hyperparameters.hpp"
#include "src/model/unread_tensors.hpp"

namespace yamata {

struct ModelFile {
  gguf::File file;
  Hyperparameters h;

  /// Throws ModelError, also for a tensor that no code reads.
  static ModelFile open(const std::string& path) { return of(gguf::File::open(path)); }
  /// The same for a file that is open.
  static ModelFile of(gguf::File file) {
    const Hyperparameters h = Hyperparameters::read(file);
    require_all_read(file, h);
    return {std::move(file), h};
  }
};

}  // namespace yamata
