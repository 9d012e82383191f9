// An index with a key for each block of tokens (Qwen3.8-Flash-Next).
#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// An operation that stores keys, or rotates queries, as they are.
StoreOp LayerOps::index_store(const LayerSpec& spec, const LayerCache& cache, std::int64_t rows) const {
  return {.q = buffers_.index_q.data(),
          .k = buffers_.index_k.data(),
          .v = nullptr,
          .rows = rows,
          .q_heads = 0,
          .kv_heads = 0,
          .head_dim = spec.index_dim,
          .rotary_dim = 0,
          .interleaved = spec.index_rope == RopeKind::kInterleaved,
          .cos_sin = cache.angles,
          .cells = cache.cells,
          .cache_k = cache.index,
          .cache_v = cache.index,
          .k_type = cache.k_type,
          .v_type = cache.k_type,
          .epsilon = h_.epsilon};
}

/// Stores the rows' own keys, then those of the blocks that end here in the place of their last tokens': the mean of the tokens' keys, with
/// a norm, rotated by the position of the first token. Picks the blocks that rows attend to, if any row sees more.
void LayerOps::add_block_index(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, std::int64_t rows) {
  const KeyBlocks& blocks = *cache.blocks;
  StoreOp own = index_store(spec, cache, rows);
  own.kv_heads = 1;
  ops_.push_back(own);
  if (blocks.ended() > 0) {
    ops_.push_back(PoolOp{.cells = blocks.members(),
                          .rows = blocks.ended(),
                          .dim = spec.index_dim,
                          .cache = cache.index,
                          .type = cache.k_type,
                          .out = buffers_.index_k.data()});
    StoreOp ended = index_store(spec, cache, blocks.ended());
    ended.kv_heads = 1, ended.rotary_dim = h_.rotary_dim, ended.k_norm = w.vector(kIndexNorm);
    ended.cos_sin = buffers_.block_angles.data(), ended.cells = blocks.ends();
    ops_.push_back(ended);
  }
  if (!cache.picked) return;
  StoreOp queries = index_store(spec, cache, rows);
  queries.q_heads = spec.index_heads, queries.rotary_dim = h_.rotary_dim, queries.q_norm = w.vector(kIndexQueryNorm);
  ops_.push_back(queries);
  ops_.push_back(PickOp{.q = buffers_.index_q.data(),
                        .weights = buffers_.ones.data(),
                        .rows = rows,
                        .heads = spec.index_heads,
                        .dim = spec.index_dim,
                        .visible = blocks.last_cells(),
                        .picked = cache.picked,
                        .cache = cache.index,
                        .type = cache.k_type,
                        .same_weights = true,
                        .blocks = cache.visible,
                        .block = spec.index_block});
}

}  // namespace yamata
