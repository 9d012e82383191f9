#pragma once
// Rotary position embedding: the angles of a position.
#include <vector>

#include "src/model/hyperparameters.hpp"

namespace yamata {

class Rope {
 public:
  /// For layers with this spec. `factors`: one divisor of the frequency per pair (rope_freqs.weight of Llama 3), or null.
  Rope(const Hyperparameters& h, const LayerSpec& spec, const float* factors);
  /// Writes (cos, sin) of every pair for `position`: [rotary_dim/2][2]. Computed in double and rounded once, so that
  /// machines with different mathematics libraries agree.
  void angles(std::int64_t position, float* out) const;
  /// Floats of a position's angles.
  std::size_t width() const { return 2 * frequency_.size(); }

 private:
  std::vector<double> frequency_;  // per pair, scaling included
  double magnitude_ = 1.0;
};

}  // namespace yamata
