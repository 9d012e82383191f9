#pragma once
// What a stage keeps between its operations, besides weights and cache.
#include <algorithm>
#include <cstdint>

#include "src/model/shard.hpp"

namespace yamata {

/// Floats of each buffer: per token of a run, and, on the last stage, per row of logits. TransformerStage sets aside what this says, and
/// the memory plan counts it.
struct StageBuffers {
  std::int64_t residual = 0;
  std::int64_t input = 0;  ///< of a product, in floats, where it is made
  std::int64_t q = 0, k = 0, v = 0, attention = 0, gate = 0, up = 0;
  std::int64_t angles = 0;              ///< (cos, sin) of every rotary pair
  std::int64_t chosen = 0, logits = 0;  ///< per row of logits

  static StageBuffers of(const Hyperparameters& h, LayerRange layers, const Shard& shard) {
    StageBuffers b;
    b.residual = h.dim;
    b.input = shard.whole() ? h.dim : std::max({h.dim, h.ffn, h.heads * h.head_dim});
    b.q = b.attention = shard.rows(Extent::kQueries).count();
    b.k = b.v = shard.rows(Extent::kKeys).count();
    b.gate = b.up = shard.rows(Extent::kFfn).count();
    b.angles = h.rotary_dim;
    if (layers.end == h.layers) b.chosen = h.dim, b.logits = shard.rows(Extent::kVocabulary).count();
    return b;
  }
  static StageBuffers of(const Hyperparameters& h, LayerRange layers) { return of(h, layers, Shard(h)); }
  /// Of a run of so many tokens and rows of logits.
  std::int64_t floats(std::int64_t tokens, std::int64_t logit_rows) const {
    return tokens * (residual + input + q + k + v + attention + gate + up + angles) + logit_rows * (chosen + logits);
  }
};

}  // namespace yamata
