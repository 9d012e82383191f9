#pragma once
// Gemma 4: layers that differ in more than their windows.
#include "src/model/family.hpp"

namespace yamata {

constexpr LayerSpec gemma4() {
  LayerSpec spec{.rope = RopeKind::kNeox, .rope_base = 1e6f};
  spec.attention_post_norm = spec.ffn_post_norm = NormKind::kRms;
  spec.qk_norm = QkNorm::kHead;
  spec.norm_values = spec.scales_output = spec.dense_beside = true;
  spec.attention_scale = 1;
  spec.activation = Activation::kGeluTanh;
  return spec;
}

/// Reads which layers have a sliding window, the sizes of their heads, which layers read the keys and values of earlier ones or make values
/// from keys, and the size of per-layer embeddings. Throws ModelError for what is missing or not supported.
void read_gemma4(const MetadataReader& reader, Hyperparameters& h);

}  // namespace yamata
