#pragma once
// The buffers of a stage, in addition to weights and cache.
#include <algorithm>
#include <cstdint>

#include "src/model/layer_shapes.hpp"
#include "src/model/passed_rows.hpp"
#include "src/model/shard.hpp"

namespace yamata {

/// Floats of each buffer: per token of a run, and, on the last stage, per row of logits. TransformerStage allocates these sizes, and the
/// memory plan counts them.
struct StageBuffers {
  static constexpr std::int64_t kHighestFloats = sizeof(Highest) / sizeof(float);
  std::int64_t residual = 0;
  std::int64_t input = 0;  ///< of a product, if it is needed in floats
  std::int64_t q = 0, k = 0, v = 0, attention = 0, gate = 0, up = 0;
  std::int64_t cell_q = 0, cell_k = 0, cell_v = 0;  ///< heads in the size that they have in the cache, where they have another in products
  std::int64_t low_queries = 0, head_pairs = 0;     ///< of latent attention; numbers of the pairs of tokens and heads
  std::int64_t index_q = 0, index_k = 0, index_weights = 0, picked = 0, block_angles = 0;  ///< of sparse attention
  std::int64_t convolved = 0, convolved_gate = 0, state_gates = 0, state_inputs = 0;       ///< of recurrent layers
  std::int64_t normed = 0;                         ///< input of attention or feed-forward, if its norm is a separate operation
  std::int64_t ffn_input = 0;                      ///< the same of a feed-forward that is parallel to attention; or of latent experts
  std::int64_t branch = 0;                         ///< what is added to the residual stream, if other operations come before that
  std::int64_t router = 0;                         ///< logits of experts
  std::int64_t choice = 0;                         ///< of experts: weights, and numbers of the same size
  std::int64_t angles = 0;                         ///< (cos, sin) of every rotary pair
  std::int64_t query_scales = 0;                   ///< factors of queries
  std::int64_t sums = 0;                           ///< results of a dense feed-forward and of experts beside it; or of latent experts
  std::int64_t layer_inputs = 0, layer_gates = 0;  ///< per-layer embeddings
  std::int64_t stream_normed = 0, stream_gates = 0, stream_low = 0, stream_numbers = 0, block = 0;  ///< of hyper-connections
  std::int64_t passed = 0;                           ///< keys and values from other stages and for them
  std::int64_t chosen = 0, logits = 0, highest = 0;  ///< per row of logits; of these the highest, found by each unit
  std::int64_t expert_begins = 0, head_begins = 0;   ///< once
  std::int64_t ones = 0;                             ///< once: weights of a norm or of an index that has none
  std::int64_t suppressed = 0;                       ///< once: what is added to logits of tokens that are never generated

  static StageBuffers of(const Hyperparameters& h, LayerRange layers, const Shard& shard) {
    if (!h.varies()) return of_one(h, layers, shard);
    const LayerShapes shapes(h, layers, shard);
    StageBuffers most = of_one(h, layers, shard);
    for (const LayerShape& shape : shapes.all()) {
      const StageBuffers one = of_one(shape.h, layers, shape.shard);
      for (const auto member : {&StageBuffers::input, &StageBuffers::q, &StageBuffers::k, &StageBuffers::v, &StageBuffers::attention,
                                &StageBuffers::gate, &StageBuffers::up})
        most.*member = std::max(most.*member, one.*member);
    }
    most.angles = 2 * std::max(h.rotary_dim, h.window_rotary_dim);
    most.ones = h.widest_head();
    for (const std::int64_t layer : shared_from_before(h, layers)) most.passed += 2 * shapes.of(layer).shard.rows(Extent::kKeys).count();
    for (const PassedRows::Keys& keys : PassedRows(h, layers.end).keys) most.passed += keys.layer >= layers.begin ? 2 * keys.floats : 0;
    return most;
  }
  /// The same for layers that all have the sizes of h and shard.
  static StageBuffers of_one(const Hyperparameters& h, LayerRange layers, const Shard& shard) {
    const LayerSpec& spec = h.layer;
    const std::int64_t used = spec.experts > 0 ? spec.experts_used : 0, own = shard.rows(Extent::kDim).count();
    const bool layer_norm = spec.attention_norm == NormKind::kLayer || spec.ffn_norm == NormKind::kLayer;
    const bool branches =
        spec.residual_scale != 1 || spec.scaled || spec.attention_post_norm != NormKind::kNone || spec.ffn_post_norm != NormKind::kNone;
    StageBuffers b;
    b.residual = h.residual_dim();
    if (spec.streams > 0) {
      b.stream_normed = b.stream_gates = h.residual_dim();
      b.stream_low = spec.stream_rank + spec.streams, b.stream_numbers = spec.streams, b.block = h.dim;
    }
    b.input = shard.whole() && used == 0 && !h.is_latent() ? h.dim : h.widest_input();
    b.q = b.attention = shard.rows(Extent::kQueries).count();
    b.k = b.v = shard.rows(Extent::kKeys).count();
    if (h.is_latent()) {
      const std::int64_t heads = shard.query_heads();
      b.q = std::max(b.q, shard.rows(Extent::kValues).count());  // values, too, when queries have been used
      b.v = 0, b.cell_q = b.attention = heads * h.head_dim;
      b.low_queries = spec.query_rank, b.head_pairs = 2 * heads, b.head_begins = heads + 1;
    }
    if (h.is_sparse()) {
      b.index_k = spec.index_dim, b.index_q = spec.index_heads * spec.index_dim, b.picked = spec.picked;
      if (spec.index_block > 0)
        b.picked += spec.index_block - 1, b.block_angles = h.rotary_dim, b.ones = spec.index_heads;
      else
        b.index_weights = spec.index_heads;
    }
    if (h.padding > 0) {
      b.cell_q = b.attention = shard.query_heads() * h.head_dim;
      b.cell_k = b.cell_v = shard.kv_heads() * h.head_dim;
    }
    if (spec.output_gate) b.convolved = 2 * b.q;  // queries and gates
    if (h.is_recurrent()) {
      const StateShape& state = shard.state();
      b.attention = std::max(b.attention, state.values());
      const bool rule = h.state.key_heads > 0;
      b.convolved = std::max(b.convolved, rule ? state.channels() : 3 * state.channels());  // a convolution's gates and inputs
      if (rule) b.convolved_gate = state.values(), b.state_inputs = state.input_floats();
      if (state.scan) b.input = std::max(b.input, h.state.values());
      if (rule) b.state_gates = spec.joint_gates ? shard.rows(Extent::kHeadGates).count() : 2 * state.heads;
    }
    b.gate = b.up =
        std::max({shard.rows(Extent::kFfn).count(), used * shard.rows(Extent::kExpertFfn).count(), shard.rows(Extent::kSharedFfn).count()});
    if (layer_norm || used > 0 || spec.streams > 0) b.normed = h.dim;
    if (spec.parallel) b.ffn_input = h.dim;
    if (spec.dense_beside) b.sums = 2 * own;
    const std::int64_t experts_own = shard.rows(Extent::kExpertDim).count();
    if (spec.expert_dim > 0) b.ffn_input = spec.expert_dim, b.sums = experts_own;
    b.layer_inputs = PassedRows::inputs_from(h, layers.begin), b.layer_gates = spec.input_dim > 0 ? b.layer_inputs : 0;
    b.input = std::max(b.input, spec.input_dim);
    if (used > 0 || branches) b.branch = std::max<std::int64_t>(1, used) * std::max(own, experts_own);
    if (used > 0) b.router = spec.experts + 1, b.choice = 4 * used, b.expert_begins = spec.experts + 1;
    b.angles = h.rotary_dim * (h.mixes_windows() ? 2 : 1);
    b.query_scales = spec.query_scale != 0 ? 1 : 0;
    if (layers.end == h.layers)
      b.chosen = h.residual_dim(), b.logits = shard.rows(Extent::kVocabulary).count(), b.highest = kMaxUnits * kHighestFloats;
    b.suppressed = h.suppressed.empty() ? 0 : b.logits;
    return b;
  }
  static StageBuffers of(const Hyperparameters& h, LayerRange layers) { return of(h, layers, Shard(h)); }
  /// Of a run with this many tokens and rows of logits.
  std::int64_t floats(std::int64_t tokens, std::int64_t logit_rows) const {
    const std::int64_t attends = q + k + v + attention + cell_q + cell_k + cell_v + low_queries + head_pairs;
    const std::int64_t index = index_q + index_k + index_weights + picked + block_angles;
    const std::int64_t mixes = stream_normed + stream_gates + stream_low + stream_numbers + block;
    const std::int64_t rule = convolved + convolved_gate + state_gates + state_inputs;
    return tokens * (residual + input + attends + index + rule + mixes + gate + up + normed + ffn_input + branch + router + choice +
                     angles + query_scales + sums + layer_inputs + layer_gates + passed) +
           logit_rows * (chosen + logits + highest) + expert_begins + head_begins + ones + suppressed;
  }
};

}  // namespace yamata
