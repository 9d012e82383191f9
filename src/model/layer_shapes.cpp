#include "src/model/layer_shapes.hpp"

#include <algorithm>

namespace yamata {
namespace {

bool same_sizes(const Hyperparameters& a, const Hyperparameters& b) {
  return a.head_dim == b.head_dim && a.rotary_dim == b.rotary_dim && a.kv_heads == b.kv_heads && a.ffn == b.ffn;
}

CacheShape index_shape(const LayerSpec& spec) { return {1, spec.index_heads > 0 ? 1 : 0, static_cast<int>(spec.index_dim), false}; }

}  // namespace

LayerShapes::LayerShapes(const Hyperparameters& h, LayerRange layers, const Shard& shard) {
  std::vector<std::int64_t> numbers = shared_from_before(h, layers);
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) numbers.push_back(layer);
  for (const std::int64_t layer : numbers) {
    Hyperparameters one = h.varies() ? h.of_layer(layer) : h;
    auto found = std::ranges::find_if(shapes_, [&](const LayerShape& shape) { return same_sizes(shape.h, one); });
    if (found == shapes_.end()) {
      shapes_.push_back({one, h.varies() ? shard.of_layer(h, layer) : shard});
      found = shapes_.end() - 1;
    }
    by_layer_[layer] = &*found;
  }
}

std::vector<std::int64_t> shared_from_before(const Hyperparameters& h, LayerRange layers) {
  std::vector<std::int64_t> before;
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
    const std::int64_t source = h.cache_layer(layer);
    if (source < layers.begin && std::ranges::find(before, source) == before.end()) before.push_back(source);
  }
  std::ranges::sort(before);
  return before;
}

std::vector<CachedLayer> cached_layers(const Hyperparameters& h, LayerRange layers, const Shard& shard) {
  std::vector<CachedLayer> cached;
  const auto add = [&](std::int64_t layer) {
    cached.push_back({layer, h.layer_at(layer).window > 0, (h.varies() ? shard.of_layer(h, layer) : shard).cache_shape(1),
                      index_shape(h.layer_at(layer))});
  };
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
    if (h.layer_at(layer).attends() && h.cache_layer(layer) == layer) add(layer);
  }
  for (const std::int64_t layer : shared_from_before(h, layers)) add(layer);
  return cached;
}

/// Without key heads, a StateStore has columns only.
StateShape ngram_state(const Hyperparameters& h) { return {.heads = h.residual_dim() / StateShape::kBlock, .dim = StateShape::kBlock}; }

StateCounts ngram_counts(const Hyperparameters& h, StateCounts counts) {
  return {counts.inputs, counts.states, static_cast<std::int32_t>(h.ngrams.kept())};
}

std::size_t ngram_bytes(const Hyperparameters& h, LayerRange layers, StateCounts counts) {
  const bool here = layers.begin <= h.ngrams.layer && h.ngrams.layer < layers.end;
  return here ? StateStore::bytes_for(ngram_state(h), 1, ngram_counts(h, counts)) : 0;
}

std::size_t cell_bytes(const Hyperparameters& h, LayerRange layers, const Shard& shard, CacheTypes types, bool windowed) {
  std::size_t bytes = 0;
  for (const CachedLayer& cached : cached_layers(h, layers, shard)) {
    if (cached.windowed == windowed) bytes += KvStore::bytes_for(cached.shape, 1, types) + KvStore::bytes_for(cached.index, 1, types);
  }
  return bytes;
}

double mean_cell_bytes(const Hyperparameters& h, CacheTypes types, std::int64_t tokens) {
  const Shard whole(h);
  if (!h.varies() && !h.is_sparse())
    return static_cast<double>(KvStore::bytes_for(whole.cache_shape(1), tokens, types) / static_cast<std::size_t>(tokens));
  const std::size_t all = cell_bytes(h, {0, h.layers}, whole, types, false) + cell_bytes(h, {0, h.layers}, whole, types, true);
  return static_cast<double>(all) / static_cast<double>(attending_layers(h, {0, h.layers}));
}

}  // namespace yamata
