#pragma once
// What a stage keeps between its operations, besides weights and cache.
#include <cstdint>

#include "src/model/hyperparameters.hpp"

namespace yamata {

/// Floats of each buffer: per token of a run, and, on the last stage, per row of logits. TransformerStage sets aside what this says, and
/// the memory plan counts it.
struct StageBuffers {
  std::int64_t residual = 0, normed = 0, q = 0, k = 0, v = 0, attention = 0, gate = 0, up = 0;
  std::int64_t angles = 0;              ///< (cos, sin) of every rotary pair
  std::int64_t chosen = 0, logits = 0;  ///< per row of logits

  static StageBuffers of(const Hyperparameters& h, LayerRange layers) {
    StageBuffers b;
    b.residual = b.normed = h.dim;
    b.q = b.attention = h.heads * h.head_dim;
    b.k = b.v = h.kv_heads * h.head_dim;
    b.gate = b.up = h.ffn;
    b.angles = h.rotary_dim;
    if (layers.end == h.layers) b.chosen = h.dim, b.logits = h.vocabulary;
    return b;
  }
  /// Of a run of so many tokens and rows of logits.
  std::int64_t floats(std::int64_t tokens, std::int64_t logit_rows) const {
    return tokens * (residual + normed + q + k + v + attention + gate + up + angles) + logit_rows * (chosen + logits);
  }
};

}  // namespace yamata
