#pragma once
// The structure of a transformer layer as data: families, and layers within a model, differ only in these fields. Biases are not a field: a
// layer has those that are in the file.
#include <cstdint>
#include <string>

#include "node/op.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata {

enum class NormKind { kNone, kRms, kLayer };
/// The norm of queries and keys.
enum class QkNorm {
  kNone,
  kHead,      ///< RMSNorm of every head, with the same weights
  kToken,     ///< RMSNorm of all heads of a token together
  kEachHead,  ///< LayerNorm of every head, with weights of its own
  kUnit       ///< RMSNorm of every head, without weights
};
/// The RoPE pairs of a head: 2i and 2i+1, or (GPT-NeoX) i and i + d/2.
enum class RopeKind { kNone, kInterleaved, kNeox };

/// What mixes tokens in a layer. A gated delta rule, a scan (Mamba-2), and a short convolution between two gates have states
/// (node/state_op.hpp).
enum class Mixer { kAttention, kDeltaRule, kScan, kConvolution, kNone };

inline constexpr std::int32_t kMostStreams = 64;  ///< of LayerSpec::streams

/// The defaults are Llama's.
struct LayerSpec {
  // Attention.
  NormKind attention_norm = NormKind::kRms;        ///< of its input
  NormKind attention_post_norm = NormKind::kNone;  ///< of its output, before that is added to the residual stream
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_last = false;  ///< after RoPE, not before it
  RopeKind rope = RopeKind::kInterleaved;
  float rope_base = 10000.0f;
  bool rope_scaled = true;        ///< RoPE scaling of the metadata applies; false: not in this layer
  bool rope_factors = true;       ///< the file's factors of RoPE's pairs apply
  std::int64_t window = 0;        ///< tokens that a token sees, including itself; 0: all before it
  float attention_scale = 0;      ///< factor of the products of queries and keys; 0: 1 / sqrt(head size)
  float query_scale = 0;          ///< b: queries are multiplied by Hyperparameters::query_scale_at of their position; 0: off
  float attention_softcap = 0;    ///< c: scores become c tanh(score / c); 0: off
  bool sinks = false;             ///< each head has a score that adds no value
  bool norm_values = false;       ///< RMSNorm of each head's values, without weights; that of keys is an operation of its own
  bool values_from_keys = false;  ///< values are the products of which keys are made
  bool reads_cache = false;       ///< keys and values are those of Hyperparameters::cache_layer

  // Latent attention (DeepSeek-V2, section 2.1): the cache holds a latent vector for the keys and values of all heads, and the rotated part
  // of keys, which all heads share. A matrix per head maps its query into the latent space, so keys are never computed.
  std::int64_t latent_rank = 0;  ///< size of the latent vector; 0: heads have their own keys and values
  std::int64_t query_rank = 0;   ///< size of the latent vector of queries; 0: full rank
  std::int64_t plain_dim = 0;    ///< elements of a query without RoPE
  std::int64_t value_dim = 0;    ///< of a head

  // Sparse attention (DeepSeek-V3.2, section 2.1): an index scores the cells that a token sees, and the token attends to the best ones.
  std::int64_t picked = 0;       ///< so many; 0: to all cells that it sees
  std::int64_t index_heads = 0;  ///< query heads of the layer's index; 0: it attends to what the last layer before it with an index picked
  std::int64_t index_dim = 0;    ///< of each, and of a token's only key
  RopeKind index_rope = RopeKind::kNeox;
  std::int64_t index_block = 0;  ///< consecutive tokens that have a key together and are picked together; 0: each has its own

  Mixer mixer = Mixer::kAttention;
  bool alone = false;         ///< a layer has either a mixer or a feed-forward
  bool feeds = true;          ///< it has a feed-forward
  bool joint_gates = false;   ///< of a gated delta rule: one matrix has the decays and strengths of all heads, else two
  bool sigmoid_gate = false;  ///< of a gated delta rule: its results are multiplied by the sigmoid of gates, not by silu of them
  bool output_gate = false;   ///< attention's results are multiplied by the sigmoid of gates, which lie beside each head's query

  // Hyper-connections: the residual stream is several streams, which begin as the embedding. A block reads a mix of them, and what it
  // writes is added to each with a weight of its own. There are no other norms of its input.
  std::int64_t streams = 0;      ///< 0: the residual stream is one
  std::int64_t stream_rank = 0;  ///< size of the vector from which the gates of a mix are made

  bool parallel = false;     ///< attention and feed-forward read the same residual stream, and both are added to it
  float residual_scale = 1;  ///< factor for both before that
  bool scaled = false;       ///< a matrix may have a factor of all its weights, in a tensor of its own

  // Per-layer embeddings (Gemma 3n and 4): after the feed-forward, a gate of the residual stream multiplies this layer's part of another
  // embedding of the token, and a product of that is added.
  std::int64_t input_dim = 0;  ///< values of a token per layer; 0: none
  bool scales_output = false;  ///< a layer may have a factor of the residual stream after it

  // N-gram embeddings (Qwen3.8): before a layer's other blocks, a product of other embeddings of the token and those before it is added to
  // the streams, as much as another product is like each stream, and then a convolution of that.
  std::int64_t ngram_dim = 0;  ///< floats of a token's embeddings; 0: the model has none
  bool reads_ngrams = false;   ///< this layer does that

  // Feed-forward.
  NormKind ffn_norm = NormKind::kRms;
  NormKind ffn_post_norm = NormKind::kNone;
  Activation activation = Activation::kSilu;
  bool gated = true;  ///< activation(gate) * up, else activation(up)
  // With experts, each token uses some of many feed-forwards, and a shared one if `shared_ffn` is not 0.
  std::int64_t experts = 0;                     ///< 0: one feed-forward for all tokens
  std::int64_t experts_used = 0;                ///< per token
  std::int64_t expert_ffn = 0, shared_ffn = 0;  ///< columns
  std::int64_t expert_dim = 0;                  ///< of the latent vectors that experts read and write; 0: as the residual stream
  bool shared_gate = false;                     ///< the shared one's result is multiplied by sigmoid(a product of the token)
  RouterKind router = RouterKind::kSoftmax;
  bool normalize_experts = true;  ///< a token's weights are divided by their sum
  float experts_scale = 1;        ///< and multiplied by this
  bool weigh_inputs = false;      ///< they multiply what experts read, not their results
  /// A dense feed-forward beside the experts, with norms of its input and result as they have, and one of the sum (Gemma 4).
  bool dense_beside = false;
  std::int64_t expert_groups = 0,
               expert_groups_used = 0;  ///< number of groups of experts, and of groups from which a token's experts come; 0: no groups

  bool attends() const { return mixer == Mixer::kAttention; }
  bool recurrent() const { return !attends() && mixer != Mixer::kNone; }
  bool has_dense() const { return feeds && (experts == 0 || dense_beside); }

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// Throws ModelError with the feature of a layer that Yamata does not support.
void require_supported(const gguf::File& file, const LayerSpec& spec);

}  // namespace yamata
