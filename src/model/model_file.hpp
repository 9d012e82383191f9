#pragma once
// A model file with its hyperparameters.
#include <string>

#include "src/gguf/gguf.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

struct ModelFile {
  gguf::File file;
  Hyperparameters h;

  /// Throws ModelError.
  static ModelFile open(const std::string& path) {
    gguf::File file = gguf::File::open(path);
    const Hyperparameters h = Hyperparameters::read(file);
    return {std::move(file), h};
  }
};

}  // namespace yamata
