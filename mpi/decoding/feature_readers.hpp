#pragma once
// The sources of a text that read the target's features.
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/decoding/guess_sources.hpp"

namespace yamata {

/// The target is asked for all layers that any source reads; each source gets its own layers.
class FeatureReaders {
 public:
  /// As a text begins. The sources outlive this.
  explicit FeatureReaders(const GuessSources& sources);

  /// Layers that any source reads, ascending.
  const std::vector<std::int32_t>& layers() const { return layers_; }
  /// `features`: [layers][dim] of a committed position.
  void tell(std::int32_t position, std::span<const float> features) const;

 private:
  struct Reader {
    GuessSource* source;
    std::vector<std::size_t> layers;  // indices in layers_
  };
  std::vector<std::int32_t> layers_;
  std::vector<Reader> readers_;
};

}  // namespace yamata
