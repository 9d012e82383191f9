#pragma once
// The numbers that shape a model, read from GGUF metadata.
#include <cstdint>
#include <string>
#include <vector>

#include "src/gguf/gguf.hpp"
#include "src/model/family.hpp"
#include "src/model/ngrams.hpp"

namespace yamata {

/// The default context in tokens, limited by the trained context.
inline constexpr int kDefaultContext = 4096;

struct RopeScaling {
  /// kLong: by a factor per pair, with one set for contexts up to `original_context`, and one for longer ones.
  enum class Kind { kNone, kLinear, kYarn, kLong } kind = Kind::kNone;
  float factor = 1.0f;
  float attention_factor = 1.0f;
  std::int64_t original_context = 0;
  float beta_fast = 32, beta_slow = 1;  ///< YaRN: rotations over the original context at which interpolation begins and is complete
};

struct Hyperparameters {
  const Family* family = nullptr;
  std::int64_t layers = 0, dim = 0, ffn = 0, heads = 0, kv_heads = 0, head_dim = 0, rotary_dim = 0;
  std::int64_t vocabulary = 0, context = 0;
  std::int64_t nextn_layers = 0;  ///< multi-token prediction (MTP) layers after the last layer; not part of the model itself
  std::int64_t padding = 0;       ///< zeros at the end of each head in the cache: attention computes multiples of 16
  float epsilon = 0;
  LayerSpec layer;                  ///< common to all layers, from the metadata; differences between layers are below
  std::int64_t window_pattern = 0;  ///< of this many layers, the last has no sliding window; 0: all have one
  std::vector<bool> windows;        ///< which layers have a sliding window, where the file has a list of them; empty: by the pattern
  float window_rope_base = 0;       ///< of layers with a sliding window; 0: the same as the others
  bool window_rope_scaled = true;   ///< whether `rope` scaling also applies to those layers
  bool window_rope_factors = true;  ///< the same of the file's factors per pair
  std::int64_t window_head_dim = 0, window_rotary_dim = 0;  ///< of layers with a sliding window; 0: the same as the others
  std::vector<std::int64_t> layer_kv_heads, layer_ffn;      ///< by layer; empty: all layers have `kv_heads`, `ffn`; else these are the most
  std::vector<bool> tied_values;                            ///< which layers have LayerSpec::values_from_keys; empty: none
  std::int64_t first_shared = 0;      ///< this layer and those after it read the keys and values of earlier ones; 0: none
  bool chunked = false;               ///< windows begin at multiples of their size, instead of moving with the token
  bool only_windows_rotate = false;   ///< if there are windows, layers without one have no RoPE, and only they scale queries
  std::int64_t unrotated_period = 0;  ///< of this many layers, the last has no RoPE; 0: see the line before
  std::int64_t query_scale_length = 1, query_scale_offset = 0;  ///< of LayerSpec::query_scale
  std::int64_t dense_layers = 0;                                ///< number of layers at the beginning without experts
  std::int64_t expert_period = 1;                               ///< of this many layers, only the last has experts
  StateShape state;                                             ///< of layers with states
  NgramShape ngrams;                                            ///< of n-gram embeddings
  std::vector<Mixer> mixers;                                    ///< by layer; empty: all have attention
  std::vector<bool> sparse;                                     ///< which layers have sparse attention; empty: all, if the model has it
  std::vector<bool> indexed;                                    ///< with sparse attention, which layers have an index; empty: all
  RopeScaling rope;
  float embedding_scale = 1, logit_scale = 1, logit_softcap = 0;
  std::vector<std::int32_t> suppressed;  ///< tokens that are never generated: their logits are minus infinity

  /// Throws ModelError for an unsupported architecture or feature, with its name, and for inconsistent values.
  static Hyperparameters read(const gguf::File& file);

  bool is_recurrent() const { return state.heads > 0; }
  bool is_latent() const { return layer.latent_rank > 0; }
  /// Floats of a token's residual stream, of all its streams together.
  std::int64_t residual_dim() const { return layer.streams > 0 ? layer.streams * dim : dim; }
  /// Of what experts read and write.
  std::int64_t expert_dim() const { return layer.expert_dim > 0 ? layer.expert_dim : dim; }
  bool is_sparse() const { return layer.picked > 0; }
  // Sizes of a head: of its projection, and of attention's result. head_dim is the size in the cache.
  std::int64_t query_dim() const { return is_latent() ? layer.plain_dim + rotary_dim : head_dim - padding; }
  std::int64_t value_dim() const { return is_latent() ? layer.value_dim : head_dim - padding; }
  /// Size of a head's key before it is stored.
  std::int64_t key_dim() const { return head_dim - padding; }
  /// The factor of queries at a position p (Llama 4): 1 + b log(1 + floor((p + offset) / length)).
  float query_scale_at(std::int64_t position) const;
  /// The spec of a layer.
  LayerSpec layer_at(std::int64_t layer) const;
  bool has_window(std::int64_t layer) const;
  /// Whether layers with and without a sliding window may both occur.
  bool mixes_windows() const { return window_pattern > 0 || !windows.empty(); }
  /// Whether sizes differ between layers.
  bool varies() const { return window_head_dim > 0 || !layer_kv_heads.empty() || !layer_ffn.empty(); }
  /// The same with the sizes of a layer for all layers.
  Hyperparameters of_layer(std::int64_t layer) const;
  /// The same with the sizes of heads in layers with a sliding window, or without.
  Hyperparameters of_window(bool windowed) const;
  /// The layer whose keys and values a layer reads: itself, or the last one before `first_shared` that has a window, or none, as it does.
  std::int64_t cache_layer(std::int64_t layer) const;
  std::int64_t widest_head() const { return window_head_dim > head_dim ? window_head_dim : head_dim; }
  /// The spec of layers with a sliding window, or of those without.
  LayerSpec with_window(bool windowed) const;
  NormKind output_norm() const { return layer.attention_norm == NormKind::kLayer ? NormKind::kLayer : NormKind::kRms; }
  bool has_dense_layers() const { return layer.has_dense() || dense_layers > 0 || expert_period > 1; }
  /// Columns of a token's feed-forward activations in the widest layer, of all its experts together.
  std::int64_t active_ffn() const;
  /// Floats of the widest input of a product, per token.
  std::int64_t widest_input() const;
};

/// Half-open range of layers that a stage holds.
struct LayerRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

/// Number of layers among these with a sliding window.
std::int64_t windowed_layers(const Hyperparameters& h, LayerRange layers);
/// The same with attention.
std::int64_t attending_layers(const Hyperparameters& h, LayerRange layers);
/// The same with states.
std::int64_t recurrent_layers(const Hyperparameters& h, LayerRange layers);

/// A warning about a context of `tokens`; empty if the model was trained for as many.
std::string beyond_training(const Hyperparameters& h, std::int64_t tokens);

}  // namespace yamata
