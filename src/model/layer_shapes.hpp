#pragma once
// Layers of different sizes: each layer's hyperparameters and shard, and what the cache holds of it.
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "cache/kv_store.hpp"
#include "cache/state_store.hpp"
#include "src/model/shard.hpp"

namespace yamata {

/// Layers of one size.
struct LayerShape {
  Hyperparameters h;
  Shard shard;
};

/// The shapes of a stage's layers, and of those whose keys and values they read.
class LayerShapes {
 public:
  LayerShapes(const Hyperparameters& h, LayerRange layers, const Shard& shard);
  const LayerShape& of(std::int64_t layer) const { return *by_layer_.at(layer); }
  const std::deque<LayerShape>& all() const { return shapes_; }

 private:
  std::deque<LayerShape> shapes_;
  std::map<std::int64_t, const LayerShape*> by_layer_;
};

/// A layer whose keys and values a stage caches.
struct CachedLayer {
  std::int64_t layer;
  bool windowed;
  CacheShape shape;
  CacheShape index;  ///< the keys of its index, without heads if it has none
};

/// The layers before a stage whose keys and values it reads, ascending: they arrive with the activations.
std::vector<std::int64_t> shared_from_before(const Hyperparameters& h, LayerRange layers);

/// A stage's layers that have cells of their own, then those before it whose keys and values it reads.
std::vector<CachedLayer> cached_layers(const Hyperparameters& h, LayerRange layers, const Shard& shard);

/// The shape of what is kept for the convolution of n-gram embeddings: columns, as many floats as the streams have; and how many.
StateShape ngram_state(const Hyperparameters& h);
StateCounts ngram_counts(const Hyperparameters& h, StateCounts counts);
/// Its bytes, if the layer that has them is in the stage.
std::size_t ngram_bytes(const Hyperparameters& h, LayerRange layers, StateCounts counts);

/// Bytes of a token's keys and values in a stage's layers with a sliding window, or in those without.
std::size_t cell_bytes(const Hyperparameters& h, LayerRange layers, const Shard& shard, CacheTypes types, bool windowed);

/// The same in a layer of the model with attention, in the mean over `tokens`.
double mean_cell_bytes(const Hyperparameters& h, CacheTypes types, std::int64_t tokens);

}  // namespace yamata
