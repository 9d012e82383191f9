#pragma once
// What passes from one stage to the next: the residual stream of a run's rows (with hyper-connections, all its streams), and, in models
// with per-layer embeddings or shared keys and values, what later layers read of earlier ones.
#include <cstdint>
#include <span>
#include <vector>

#include "src/model/hyperparameters.hpp"

namespace yamata {

/// The activations at a cut before a layer, each part for all rows of a run: the residual stream, the inputs of the layers after the cut
/// (per-layer embeddings), for each layer before the cut that one after it shares: its keys before RoPE, then its values; and the cells
/// that rows picked, as numbers among those that they see, if the layer after the cut attends to them (sparse attention).
struct PassedRows {
  struct Keys {
    std::int64_t layer;
    std::int64_t floats;  ///< of a row's keys; values have as many
  };
  PassedRows(const Hyperparameters& h, std::int64_t cut);
  /// Floats of a row that are inputs of this layer and later ones: per-layer or n-gram embeddings.
  static std::int64_t inputs_from(const Hyperparameters& h, std::int64_t layer) {
    return h.ngrams.layer >= layer ? h.ngrams.dim() : (h.layers - layer) * h.layer.input_dim;
  }

  std::int64_t dim, inputs = 0, picked = 0;  ///< floats of a row
  std::vector<Keys> keys;                    ///< by layer, ascending

  /// Floats of a row, all together.
  std::int64_t width() const;
  bool only_residual() const { return width() == dim; }
  /// The parts of a run's activations.
  std::span<const float> inputs_in(std::span<const float> activations, std::int64_t rows) const;
  /// [2][rows][floats]: of one of `keys`.
  std::span<const float> keys_in(std::span<const float> activations, std::int64_t rows, std::size_t index) const;
  /// [rows][picked]
  std::span<const float> picked_in(std::span<const float> activations, std::int64_t rows) const;
  /// The index of a layer in `keys`; throws std::out_of_range if it is none of them.
  std::size_t index_of(std::int64_t layer) const;
};

}  // namespace yamata
