#include "src/model/gemma4_reader.hpp"

#include <fmt/format.h>

#include <cmath>

#include "node/head_dim.hpp"
#include "src/model/hyperparameters.hpp"
#include "src/model/metadata_reader.hpp"

namespace yamata {
namespace {

void read_window_list(const MetadataReader& reader, Hyperparameters& h) {
  const auto refuse = [&](const char* key, std::size_t values) {
    throw ModelError(
        fmt::format("{}: gemma4.{} has {} values for {} layers; convert the model again", reader.file().name(), key, values, h.layers));
  };
  const auto require_each = [&](const char* key, const auto& values) {
    if (std::ssize(values) < h.layers) refuse(key, values.size());
  };
  h.layer.window = reader.count("attention.sliding_window", 1 << 30);
  const auto listed = reader.flags("attention.sliding_window_pattern");
  if (!listed) throw ModelError(fmt::format("{}: gemma4.attention.sliding_window_pattern is no list", reader.file().name()));
  h.windows = *listed;
  require_each("attention.sliding_window_pattern", h.windows);
  if (!h.layer_kv_heads.empty()) require_each("attention.head_count_kv", h.layer_kv_heads);
  if (!h.layer_ffn.empty()) require_each("feed_forward_length", h.layer_ffn);
}

/// Layers that read an earlier layer's keys and values, and those that make values from keys.
void read_shared_keys(const MetadataReader& reader, Hyperparameters& h) {
  const std::int64_t shared = reader.count_or_none("attention.shared_kv_layers", h.layers - 1);
  h.first_shared = shared > 0 ? h.layers - shared : 0;
  for (std::int64_t layer = 0; layer < h.layers; ++layer) {
    const bool has_source = h.has_window(h.cache_layer(layer)) == h.has_window(layer);
    if (!has_source)
      throw ModelError(fmt::format("{}: layer {} shares the keys of an earlier layer {} a window, and there is none", reader.file().name(),
                                   layer, h.has_window(layer) ? "with" : "without"));
    const auto has = [&](const char* name) { return reader.file().find(fmt::format("blk.{}.{}.weight", layer, name)) != nullptr; };
    h.tied_values.push_back(!has("attn_v") && !has("attn_qkv"));
  }
}

void require_supported_heads(const MetadataReader& reader, const Hyperparameters& h) {
  for (const std::int64_t size : {h.head_dim, h.window_head_dim}) {
    if (size % 32 != 0) reader.refuse(fmt::format("heads of {} elements, no multiple of 32, are not supported in files of 'gemma4'", size));
  }
  if (h.window_rotary_dim % 2 != 0 || h.window_rotary_dim > h.window_head_dim)
    reader.refuse(fmt::format("{} of {} elements of a head rotate; convert the model again", h.window_rotary_dim, h.window_head_dim));
  if (h.rope.kind != RopeScaling::Kind::kNone || h.rope.attention_factor != 1)
    reader.refuse("gemma4.rope.scaling is not supported; without it, the model would give another text");
  if (h.nextn_layers > 0) reader.refuse("gemma4.nextn_predict_layers is not supported");
}

}  // namespace

void read_gemma4(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"attention.sliding_window_pattern", "attention.value_length_swa", "embedding_length_per_layer_input"});
  read_window_list(reader, h);
  read_shared_keys(reader, h);
  h.embedding_scale = std::sqrt(static_cast<float>(h.dim));
  h.window_rope_base = reader.real("rope.freq_base_swa", 10000);
  h.window_rope_factors = false;
  h.window_head_dim = reader.count("attention.key_length_swa", kMaxHeadDim);
  if (reader.count("attention.value_length_swa", kMaxHeadDim) != h.window_head_dim)
    throw ModelError(fmt::format("{}: key and value sizes differ, which is not supported", reader.file().name()));
  h.window_rotary_dim = reader.count("rope.dimension_count_swa", kMaxHeadDim, h.window_head_dim);
  h.layer.input_dim = reader.count_or_none("embedding_length_per_layer_input", 1 << 16);
  h.logit_softcap = reader.real_or_none("final_logit_softcapping");
  if (h.layer.experts == 0) h.layer.dense_beside = false;
  require_supported_heads(reader, h);
  reader.file().tensor("rope_freqs.weight");  // of layers without a window
}

}  // namespace yamata
