// Latent attention (DeepSeek-V2, section 2.1, where the part on low-rank key/value compression explains "absorbing" matrices). A cell of
// the cache belongs to a single head: the rotated part of the key, then the latent vector, which is also the value.
#include <algorithm>

#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// Every row of every head: head by head, row by row.
ExpertChoice LayerOps::all_heads(std::int64_t rows) const {
  const std::int64_t heads = shard_.query_heads();
  auto* numbers = reinterpret_cast<std::int32_t*>(buffers_.head_pairs.data());
  return {.experts = heads,
          .used = heads,
          .tokens = numbers,
          .chosen = numbers + heads * rows,
          .first = reinterpret_cast<std::int32_t*>(buffers_.head_begins.data())};
}

void LayerOps::number_heads(std::int64_t rows) {
  const ExpertChoice all = all_heads(rows);
  for (std::int64_t pair = 0; pair < all.experts * rows; ++pair) {
    all.tokens[pair] = static_cast<std::int32_t>(pair % rows);
    all.chosen[pair] = static_cast<std::int32_t>(pair / rows);
  }
  for (std::int64_t head = 0; head <= all.experts; ++head) all.first[head] = static_cast<std::int32_t>(head * rows);
}

/// Computes the queries in the form of the cached keys, except their rotated part, and writes the cells.
void LayerOps::add_latent_heads(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, LinearOp input, std::int64_t rows) {
  const std::int64_t heads = shard_.query_heads(), cell = h_.head_dim, rotary = h_.rotary_dim, query = h_.query_dim();
  float *latent = buffers_.k.data() + rotary, *low = buffers_.low_queries.data();
  const LinearOp::Part queries{.weight = &w.matrix(kQ), .y = buffers_.q.data()};
  input.parts = {{spec.query_rank > 0 ? LinearOp::Part{.weight = &w.matrix(kQueryDown), .y = low} : queries,
                  {.weight = &w.matrix(kLatent), .y = latent, .stride = cell},
                  {.weight = &w.matrix(kLatentRotary), .y = buffers_.k.data(), .stride = cell}}};
  if (spec.index_heads > 0) input.parts[3] = {.weight = &w.matrix(kIndexK), .y = buffers_.index_k.data()};
  if (spec.index_heads > 0 && cache.picked) input.parts[4] = {.weight = &w.matrix(kIndexWeights), .y = buffers_.index_weights.data()};
  ops_.push_back(input);
  if (spec.query_rank > 0) {
    LinearOp up{.x = low,
                .rows = rows,
                .cols = spec.query_rank,
                .parts = {{queries, {}, {}}},
                .add = false,
                .norm = w.vector(kQueryDownNorm),
                .epsilon = h_.epsilon,
                .input = buffers_.input.data()};
    if (spec.index_heads > 0 && cache.picked) up.parts[1] = {.weight = &w.matrix(kIndexQ), .y = buffers_.index_q.data()};
    ops_.push_back(up);
  }
  if (spec.index_heads > 0) add_index(spec, w, cache, rows);
  ops_.push_back(NormOp{.x = latent,
                        .rows = rows,
                        .cols = spec.latent_rank,
                        .x_stride = cell,
                        .weight = w.vector(kLatentNorm),
                        .epsilon = h_.epsilon,
                        .out = latent,
                        .out_cols = spec.latent_rank,
                        .out_stride = cell});
  ops_.push_back(LinearOp{
      .x = buffers_.q.data(),
      .rows = heads * rows,
      .cols = spec.plain_dim,
      .parts = {{{.weight = w.copies(kKeyUp), .y = buffers_.cell_q.data() + rotary, .stride = heads * cell, .y_each = cell}, {}, {}}},
      .add = false,
      .input = buffers_.input.data(),
      .x_stride = heads * query,
      .experts = all_heads(rows),
      .x_of_tokens = true,
      .x_each = query});
}

/// Writes the keys of the index, and picks the cells that the rows attend to, if any row sees more. Every member of a group computes the
/// whole index, so that all pick the same cells.
void LayerOps::add_index(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, std::int64_t rows) {
  constexpr float kEpsilon = 1e-6f;  // the publishers'; files do not have it
  float* const keys = buffers_.index_k.data();
  ops_.push_back(NormOp{.x = keys,
                        .rows = rows,
                        .cols = spec.index_dim,
                        .x_stride = spec.index_dim,
                        .weight = w.vector(kIndexNorm),
                        .bias = w.vector(kIndexNormBias),
                        .centered = true,
                        .epsilon = kEpsilon,
                        .out = keys,
                        .out_cols = spec.index_dim,
                        .out_stride = spec.index_dim});
  StoreOp store = index_store(spec, cache, rows);
  store.q_heads = cache.picked ? spec.index_heads : 0, store.kv_heads = 1, store.rotary_dim = h_.rotary_dim;
  ops_.push_back(store);
  if (!cache.picked) return;
  ops_.push_back(PickOp{.q = buffers_.index_q.data(),
                        .weights = buffers_.index_weights.data(),
                        .rows = rows,
                        .heads = spec.index_heads,
                        .dim = spec.index_dim,
                        .visible = cache.visible,
                        .picked = cache.picked,
                        .cache = cache.index,
                        .type = cache.k_type});
}

/// Computes each head's value from attention's result, which is a latent vector.
void LayerOps::add_values(const LayerSpec& spec, const WeightSet& w, std::int64_t rows) {
  const std::int64_t heads = shard_.query_heads(), cell = h_.head_dim, value = spec.value_dim;
  ops_.push_back(
      LinearOp{.x = buffers_.attention.data() + h_.rotary_dim,
               .rows = heads * rows,
               .cols = spec.latent_rank,
               .parts = {{{.weight = w.copies(kValueUp), .y = buffers_.q.data(), .stride = heads * value, .y_each = value}, {}, {}}},
               .add = false,
               .input = buffers_.input.data(),
               .x_stride = heads * cell,
               .experts = all_heads(rows),
               .x_of_tokens = true,
               .x_each = cell});
}

}  // namespace yamata
