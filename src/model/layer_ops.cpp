#include "src/model/layer_ops.hpp"

#include <cmath>

namespace yamata {

using enum TensorRole;

/// A norm of the residual stream as the input of products. `whole`: all columns are on this rank.
LinearOp LayerOps::residual_input(float* x, std::int64_t rows, const float* norm, bool whole) const {
  const SharedColumns share = whole ? SharedColumns{} : shared(shard_.residual());
  return {.x = x + share.begin(),
          .rows = rows,
          .cols = h_.dim,
          .parts = {},
          .add = false,
          .norm = norm,
          .epsilon = h_.epsilon,
          .input = buffers_.input.data(),
          .x_stride = h_.dim,
          .share = share};
}

/// A norm of the residual stream as an operation of its own, over all columns.
void LayerOps::add_norm(const NormWeights& norm, float* x, std::int64_t rows, bool whole, float* out) {
  const SharedColumns share = whole ? SharedColumns{} : shared(shard_.residual());
  ops_.push_back(NormOp{.x = x + share.begin(),
                        .rows = rows,
                        .cols = h_.dim,
                        .x_stride = h_.dim,
                        .weight = norm.weight,
                        .bias = norm.bias,
                        .centered = norm.kind == NormKind::kLayer,
                        .epsilon = h_.epsilon,
                        .out = out,
                        .out_cols = h_.dim,
                        .out_stride = h_.dim,
                        .share = share});
}

/// The input of products: an RMSNorm is computed as part of the product, a LayerNorm before it.
LinearOp LayerOps::normed_input(const NormWeights& norm, std::int64_t rows, bool whole) {
  if (norm.kind != NormKind::kLayer) return residual_input(buffers_.x.data(), rows, norm.weight, whole);
  add_norm(norm, buffers_.x.data(), rows, whole, buffers_.normed.data());
  return {.x = buffers_.normed.data(), .rows = rows, .cols = h_.dim, .parts = {}, .add = false};
}

LayerOps::NormWeights LayerOps::ffn_norm_of(const LayerSpec& spec, const WeightSet& w) {
  return {spec.ffn_norm, w.vector(kFfnNorm), w.vector(kFfnNormBias)};
}

void LayerOps::add_layer(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, std::int64_t rows, bool whole) {
  if (spec.mixer == Mixer::kNone) return add_feed_forward(spec, w, rows);
  if (spec.reads_ngrams) add_ngrams(spec, w, cache, rows);
  const NormWeights attention_norm{spec.attention_norm, w.vector(kAttentionNorm), w.vector(kAttentionNormBias)};
  if (spec.parallel)
    add_norm(ffn_norm_of(spec, w), buffers_.x.data(), rows, whole, buffers_.ffn_input.data());  // before attention is added
  const LinearOp input = spec.streams > 0 ? mixed_input(attention_streams(w), rows) : normed_input(attention_norm, rows, whole);
  if (spec.recurrent()) {
    spec.mixer == Mixer::kConvolution ? add_convolution(spec, w, cache, input)
    : spec.mixer == Mixer::kScan      ? add_scan(spec, w, cache, input)
                                      : add_rule(spec, w, cache, input);
    return add_feed_forward(spec, w, rows);
  }
  spec.latent_rank > 0 ? add_latent_heads(spec, w, cache, input, rows)
  : spec.output_gate   ? add_gated_queries(spec, w, cache, input)
                       : add_own_heads(spec, w, input);
  if (spec.qk_norm == QkNorm::kEachHead || (spec.qk_norm == QkNorm::kHead && h_.padding > 0)) {
    add_head_norm(spec, buffers_.q.data(), rows, shard_.rows(Extent::kQueries), w.vector(kQNorm));
    add_head_norm(spec, buffers_.k.data(), rows, shard_.rows(Extent::kKeys), w.vector(kKNorm));
  }
  if (spec.qk_norm == QkNorm::kToken) {
    add_token_norm(buffers_.q.data(), rows, shard_.attention(), shard_.rows(Extent::kQueries), w.vector(kQNorm));
    add_token_norm(buffers_.k.data(), rows, shard_.keys(), shard_.rows(Extent::kKeys), w.vector(kKNorm));
  }
  if (spec.norm_values && !spec.reads_cache) norm_keys_and_values(spec, w, cache, rows);
  if (h_.padding > 0) pad_heads(rows);
  add_attention(spec, w, cache, rows);
  if (spec.latent_rank > 0) add_values(spec, w, rows);
  if (h_.padding > 0)
    ops_.push_back(ResizeOp{buffers_.attention.data(), buffers_.q.data(), rows * shard_.query_heads(), h_.head_dim, h_.value_dim()});
  if (spec.output_gate) add_gate(rows);
  add_to_residual(spec,
                  {.x = stores_other_queries() ? buffers_.q.data() : buffers_.attention.data(),
                   .rows = rows,
                   .cols = h_.heads * h_.value_dim(),
                   .parts = {},
                   .add = true,
                   .input = shard_.whole() ? nullptr : buffers_.input.data(),
                   .share = shared(shard_.attention())},
                  {&w.matrix(kO), w.vector(kOBias)}, {spec.attention_post_norm, w.vector(kAttentionPostNorm), nullptr});
  add_feed_forward(spec, w, rows);
  if (spec.input_dim > 0) add_layer_input(spec, w, cache, rows);
  if (const float* scale = w.vector(kOutputScale)) ops_.push_back(ScaleOp{.x = buffers_.x.data(), .n = rows * h_.dim, .scale = *scale});
}

void LayerOps::add_feed_forward(const LayerSpec& spec, const WeightSet& w, std::int64_t rows) {
  if (!spec.feeds) return;
  if (spec.streams > 0) return add_feed_forward_of_streams(spec, w, rows);
  const NormWeights ffn_norm = ffn_norm_of(spec, w);
  if (spec.experts > 0 && spec.dense_beside) {
    add_both_feed_forwards(spec, w, rows);
  } else if (spec.experts > 0) {
    add_norm(ffn_norm, buffers_.x.data(), rows, false, buffers_.normed.data());
    add_experts(spec, w, rows);
    if (spec.shared_ffn > 0) add_shared_expert(spec, w, rows);
  } else if (spec.parallel) {
    add_dense(spec, w, {.x = buffers_.ffn_input.data(), .rows = rows, .cols = h_.dim, .parts = {}, .add = false}, rows);
  } else {
    add_dense(spec, w, normed_input(ffn_norm, rows, false), rows);
  }
}

void LayerOps::add_own_heads(const LayerSpec& spec, const WeightSet& w, LinearOp input) {
  const auto part = [&](TensorRole role, TensorRole bias, Extent extent, const FloatBuffer& y) {
    return LinearOp::Part{.weight = &w.matrix(role), .y = y.data(), .bias = own_part(w.vector(bias), extent)};
  };
  input.parts[0] = part(kQ, kQBias, Extent::kQueries, buffers_.q);
  if (!spec.reads_cache) input.parts[1] = part(kK, kKBias, Extent::kKeys, buffers_.k);
  if (!spec.reads_cache && !spec.values_from_keys) input.parts[2] = part(kV, kVBias, Extent::kKeys, buffers_.v);
  ops_.push_back(input);
}

/// RMSNorm over all heads of a token. `own` are on this rank; of these, this member sends those in `cuts` to the others.
void LayerOps::add_token_norm(float* x, std::int64_t rows, std::span<const std::int64_t> cuts, Interval own, const float* weight) {
  ops_.push_back(NormOp{.x = x,
                        .rows = rows,
                        .cols = cuts.back(),
                        .x_stride = own.count(),
                        .weight = weight,
                        .epsilon = h_.epsilon,
                        .out = x,
                        .out_begin = own.begin,
                        .out_cols = own.count(),
                        .out_stride = own.count(),
                        .share = shared(cuts)});
}

/// A norm of every head on this rank.
void LayerOps::add_head_norm(const LayerSpec& spec, float* x, std::int64_t rows, Interval own, const float* weight) {
  const std::int64_t size = h_.query_dim(), heads = own.count() / size;
  const bool each = spec.qk_norm == QkNorm::kEachHead;
  ops_.push_back(NormOp{.x = x,
                        .rows = rows * heads,
                        .cols = size,
                        .x_stride = size,
                        .weight = each ? weight + own.begin : weight,
                        .centered = each,
                        .epsilon = h_.epsilon,
                        .out = x,
                        .out_cols = size,
                        .out_stride = size,
                        .weight_rows = each ? heads : 1});
}

/// Brings queries, keys and values to the size that heads have in the cache.
void LayerOps::pad_heads(std::int64_t rows) {
  const auto pad = [&](const FloatBuffer& from, const FloatBuffer& to, std::int64_t heads) {
    ops_.push_back(ResizeOp{from.data(), to.data(), rows * heads, h_.query_dim(), h_.head_dim});
  };
  pad(buffers_.q, buffers_.cell_q, shard_.query_heads());
  pad(buffers_.k, buffers_.cell_k, shard_.kv_heads());
  pad(buffers_.v, buffers_.cell_v, shard_.kv_heads());
}

/// Of the heads on this rank, without norms of their own.
StoreOp LayerOps::store(const LayerSpec& spec, const LayerCache& cache, std::int64_t rows) const {
  const bool latent = spec.latent_rank > 0, padded = h_.padding > 0;
  const float* v = padded ? buffers_.cell_v.data() : buffers_.v.data();
  return {.q = stores_other_queries() ? buffers_.cell_q.data() : buffers_.q.data(),
          .k = padded ? buffers_.cell_k.data() : buffers_.k.data(),
          .v = latent ? nullptr : v,
          .rows = rows,
          .q_heads = shard_.query_heads(),
          .kv_heads = spec.reads_cache ? 0 : shard_.kv_heads(),
          .head_dim = h_.head_dim,
          .rotary_dim = spec.rope == RopeKind::kNone ? 0 : h_.rotary_dim,
          .interleaved = spec.rope == RopeKind::kInterleaved,
          .cos_sin = cache.angles,
          .cells = cache.cells,
          .cache_k = cache.k,
          .cache_v = cache.v,
          .k_type = cache.k_type,
          .v_type = cache.v_type,
          .unit_norm = spec.qk_norm == QkNorm::kUnit,
          .norm_last = spec.qk_norm_last,
          .q_scale = spec.query_scale != 0 ? cache.query_scales : nullptr,
          .epsilon = h_.epsilon,
          .q_rotary = latent ? buffers_.q.data() + spec.plain_dim : nullptr,
          .q_rotary_stride = h_.query_dim()};
}

/// For the heads on this rank.
void LayerOps::add_attention(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, std::int64_t rows) {
  const std::int64_t q_heads = shard_.query_heads(), kv_heads = shard_.kv_heads();
  const bool norms_heads = spec.qk_norm == QkNorm::kHead && h_.padding == 0;
  StoreOp op = store(spec, cache, rows);
  if (norms_heads) op.q_norm = w.vector(kQNorm);
  if (norms_heads && !spec.norm_values) op.k_norm = w.vector(kKNorm);
  const float* q = op.q;
  ops_.push_back(op);
  ops_.push_back(
      AttentionOp{.q = q,
                  .rows = rows,
                  .q_heads = q_heads,
                  .kv_heads = kv_heads,
                  .head_dim = h_.head_dim,
                  .scale = spec.attention_scale > 0 ? spec.attention_scale : 1.0f / std::sqrt(static_cast<float>(h_.query_dim())),
                  .visible = spec.picked > 0 && cache.picked ? cache.picked : cache.visible,
                  .cache_k = cache.k,
                  .cache_v = cache.v,
                  .k_type = cache.k_type,
                  .v_type = cache.v_type,
                  .out = buffers_.attention.data(),
                  .group = h_.heads / h_.kv_heads,
                  .before = shard_.heads_before(),
                  .softcap = spec.attention_softcap,
                  .sinks = own_part(w.vector(kSinks), Extent::kHeads),
                  .picked_of = spec.picked > 0 && cache.picked ? cache.visible : nullptr});
}

/// A norm in place of what will be added to the residual stream: [rows][own columns].
void LayerOps::norm_columns(float* x, std::int64_t rows, const NormWeights& norm) {
  const Interval own = shard_.rows(Extent::kDim);
  ops_.push_back(NormOp{.x = x,
                        .rows = rows,
                        .cols = h_.dim,
                        .x_stride = own.count(),
                        .weight = norm.weight,
                        .bias = norm.bias,
                        .centered = norm.kind == NormKind::kLayer,
                        .epsilon = h_.epsilon,
                        .out = x,
                        .out_begin = own.begin,
                        .out_cols = own.count(),
                        .out_stride = own.count(),
                        .share = shared(shard_.residual())});
}

/// Adds a product to the residual stream, for the own columns. It is normalized and scaled before if the spec says so. With
/// hyper-connections, a block ends with it.
void LayerOps::add_to_residual(const LayerSpec& spec, LinearOp product, Product with, const NormWeights& post) {
  const Interval own = shard_.rows(Extent::kDim);
  float *x = buffers_.x.data() + own.begin, *branch = buffers_.branch.data();
  if (spec.streams > 0) {
    product.parts[0] = {.weight = with.weight, .y = block_columns(), .stride = h_.dim, .bias = own_part(with.bias, Extent::kDim)};
    product.add = false;
    ops_.push_back(product);
    return add_block(product.rows);
  }
  const bool direct = post.kind == NormKind::kNone && spec.residual_scale == 1 && !with.weight->scale;
  product.parts[0] = {
      .weight = with.weight, .y = direct ? x : branch, .stride = direct ? h_.dim : own.count(), .bias = own_part(with.bias, Extent::kDim)};
  product.add = direct;
  ops_.push_back(product);
  if (direct) return;
  if (post.kind != NormKind::kNone) norm_columns(branch, product.rows, post);
  ops_.push_back(AddOp{.to = x,
                       .from = branch,
                       .rows = product.rows,
                       .cols = own.count(),
                       .to_stride = h_.dim,
                       .from_stride = own.count(),
                       .scale = spec.residual_scale});
}

/// The activation of gate and up, or of up alone, as the input of the next product.
LinearOp LayerOps::activated(const LayerSpec& spec, std::int64_t rows, std::int64_t cols, std::span<const std::int64_t> cuts) const {
  float* x = spec.gated ? buffers_.gate.data() : buffers_.up.data();
  return {.x = x,
          .rows = rows,
          .cols = cols,
          .parts = {},
          .add = false,
          .up = spec.gated ? buffers_.up.data() : nullptr,
          .input = shard_.whole() ? x : buffers_.input.data(),
          .share = shared(cuts),
          .activation = spec.activation};
}

void LayerOps::add_dense(const LayerSpec& spec, const WeightSet& w, LinearOp input, std::int64_t rows) {
  const auto part = [&](TensorRole role, TensorRole bias, const FloatBuffer& y) {
    return LinearOp::Part{.weight = &w.matrix(role), .y = y.data(), .bias = own_part(w.vector(bias), Extent::kFfn)};
  };
  if (spec.gated) input.parts[0] = part(kGate, kGateBias, buffers_.gate);
  input.parts[1] = part(kUp, kUpBias, buffers_.up);
  ops_.push_back(input);
  add_to_residual(spec, activated(spec, rows, h_.ffn, shard_.ffn()), {&w.matrix(kDown), w.vector(kDownBias)},
                  {spec.ffn_post_norm, w.vector(kFfnPostNorm), nullptr});
}

/// Adds a branch to the residual stream, or to what the block writes, for the own columns.
AddOp LayerOps::branch_to_residual(const LayerSpec& spec, std::int64_t rows) const {
  const Interval own = shard_.rows(Extent::kDim);
  return {.to = spec.streams > 0 ? block_columns() : buffers_.x.data() + own.begin,
          .from = buffers_.branch.data(),
          .rows = rows,
          .cols = own.count(),
          .to_stride = h_.dim,
          .from_stride = own.count(),
          .scale = spec.residual_scale};
}

}  // namespace yamata
