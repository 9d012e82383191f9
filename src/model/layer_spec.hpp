#pragma once
// What one layer of a transformer is made of, as data: families, and layers within a model, differ in these fields and in nothing else.
// Biases are no field: a layer has those that are in the file.
#include <cstdint>
#include <string>

#include "node/op.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata {

enum class NormKind { kNone, kRms, kLayer };
/// RMSNorm of queries and keys before they rotate: of every head by itself, or of all heads of a token together.
enum class QkNorm { kNone, kHead, kToken };
/// Which values of a head rotate together: 2i and 2i+1, or (GPT-NeoX) i and i + d/2.
enum class RopeKind { kNone, kInterleaved, kNeox };

/// The defaults are Llama's.
struct LayerSpec {
  // Attention.
  NormKind attention_norm = NormKind::kRms;        ///< of its input
  NormKind attention_post_norm = NormKind::kNone;  ///< of its output, before that is added to the residual stream
  QkNorm qk_norm = QkNorm::kNone;
  RopeKind rope = RopeKind::kInterleaved;
  float rope_base = 10000.0f;
  bool rope_scaled = true;      ///< as the metadata say; false: not scaled though the other layers are
  std::int64_t window = 0;      ///< tokens that a token sees, itself among them; 0: all before it
  float attention_scale = 0;    ///< of products of queries and keys; 0: 1 / sqrt(head size)
  float attention_softcap = 0;  ///< c: scores become c tanh(score / c); 0: they stay
  bool sinks = false;           ///< each head has a score that adds no value

  // Latent attention (DeepSeek-V2, section 2.1): the cache has so many numbers for all heads' keys and values together, and the rotated
  // part of keys, which heads share. A head's matrix takes its query to where these are, so that they are never made into keys.
  std::int64_t latent_rank = 0;  ///< 0: heads have keys and values of their own
  std::int64_t query_rank = 0;   ///< queries are made from so many numbers; 0: from the token
  std::int64_t plain_dim = 0;    ///< elements of a query that do not rotate
  std::int64_t value_dim = 0;    ///< of a head

  bool parallel = false;     ///< attention and feed-forward read the same residual stream, and both are added to it
  float residual_scale = 1;  ///< what both are multiplied with before that

  // Feed-forward.
  NormKind ffn_norm = NormKind::kRms;
  NormKind ffn_post_norm = NormKind::kNone;
  Activation activation = Activation::kSilu;
  bool gated = true;  ///< activation(gate) * up, else activation(up)
  // With experts each token takes some of many feed-forwards, and one that all tokens share where it has columns.
  std::int64_t experts = 0;                     ///< 0: one feed-forward for all tokens
  std::int64_t experts_used = 0;                ///< per token
  std::int64_t expert_ffn = 0, shared_ffn = 0;  ///< columns
  bool shared_gate = false;                     ///< the shared one is multiplied with sigmoid(a product of the token)
  RouterKind router = RouterKind::kSoftmax;
  bool normalize_experts = true;                           ///< a token's weights are divided by their sum
  float experts_scale = 1;                                 ///< and multiplied with this
  std::int64_t expert_groups = 0, expert_groups_used = 0;  ///< a token's experts are all of so many groups of them; 0: of any

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// Throws ModelError naming what a layer needs and Yamata cannot compute.
void require_supported(const gguf::File& file, const LayerSpec& spec);

}  // namespace yamata
