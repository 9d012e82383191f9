#pragma once
// What one layer of a transformer is made of, as data: families, and layers within a model, differ in these fields and in nothing else.
#include <cstdint>
#include <string>

#include "src/gguf/gguf.hpp"

namespace yamata {

enum class NormKind { kNone, kRms, kLayer };
enum class Activation { kSilu, kGelu, kGeluTanh };
/// Which values of a head rotate together: 2i and 2i+1, or (GPT-NeoX) i and i + d/2.
enum class RopeKind { kNone, kInterleaved, kNeox };

/// The defaults are Llama's.
struct LayerSpec {
  // Attention.
  NormKind attention_norm = NormKind::kRms;        ///< of its input
  NormKind attention_post_norm = NormKind::kNone;  ///< of its output, before that is added to the residual stream
  NormKind qk_norm = NormKind::kNone;              ///< of every head's query and key, before they rotate
  bool qkv_bias = false, attention_output_bias = false;
  RopeKind rope = RopeKind::kInterleaved;
  float rope_base = 10000.0f;
  std::int64_t window = 0;      ///< tokens that a token sees, itself among them; 0: all before it
  float attention_softcap = 0;  ///< c: scores become c tanh(score / c); 0: they stay

  bool parallel = false;  ///< attention and feed-forward read the same input, and both are added to it

  // Feed-forward.
  NormKind ffn_norm = NormKind::kRms;
  NormKind ffn_post_norm = NormKind::kNone;
  Activation activation = Activation::kSilu;
  bool gated = true;  ///< activation(gate) * up, else activation(up)
  bool ffn_bias = false;
  std::int64_t experts = 0;       ///< 0: one feed-forward for all tokens
  std::int64_t experts_used = 0;  ///< per token

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// Throws ModelError naming what a layer needs and Yamata cannot compute; `layer` names its tensors.
void require_supported(const gguf::File& file, const LayerSpec& spec, std::int64_t layer);

}  // namespace yamata
