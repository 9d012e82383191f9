#pragma once
// What small models are made of: a shape, and the tensors and metadata that follow from it.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/families/model_writer.hpp"
#include "tests/families/tiny_model.hpp"

namespace yamata::families_test {

/// How a small model is shaped, and which tensors its layers have. Head counts are odd or the groups are; windows are shorter than the
/// text.
struct Shape {
  const char* architecture;
  const char* output_norm = "output_norm";
  std::int64_t layers = 4, dim = 192, heads = 6, kv_heads = 3, head_dim = 32, rotary_dim = 32, ffn = 320;
  bool layer_norm = false, norm_bias = true;
  std::vector<const char*> norms{"attn_norm", "ffn_norm"};
  bool fused_qkv = false, qkv_bias = false, other_bias = false;
  bool output_bias = false, scales = false;
  bool expert_bias = false, choice_bias = false, shared_score = false, sinks = false;
  enum { kNone, kHead, kToken, kEachHead } qk_norm = kNone;
  enum { kGated, kFusedGate, kPlain } feed_forward = kGated;
  std::int64_t experts = 0, expert_ffn = 96, shared_ffn = 0, dense_layers = 0;
  std::int64_t expert_period = 1;  ///< of this many layers, only the last has experts
  std::int64_t expert_dim = 0;     ///< of latent vectors that experts read and write; 0: none
  bool single_experts = false, fused_experts = false;
  /// Latent attention: heads of plain_dim + rotary_dim, values as wide as plain_dim + 16, the matrices of keys and values in one or not.
  std::int64_t latent_rank = 0, query_rank = 0, plain_dim = 32;
  bool merged_keys = false;
  /// Sparse attention to so many cells; which layers have an index (none given: all).
  std::int64_t picked = 0, index_heads = 11, index_dim = 64;
  std::vector<bool> indexed{};
  /// Gated delta rule in all but every fourth layer, where attention has a gate. Decays and strengths in one matrix or in two.
  std::int64_t state_heads = 0, state_key_heads = 2, state_dim = 32;
  bool joint_gates = false;
  /// A letter for each layer: M for a scan (Mamba-2), * for attention, - for neither. `alone`: only the last have a feed-forward.
  const char* layout = nullptr;
  std::int64_t state_key_dim = 48;
  bool alone = false;
  /// Short convolutions of so many columns in all but every third layer; 0: none.
  std::int64_t taps = 0;
  /// Hyper-connections of so many streams, instead of norms; attention also has an index, which picks `picked` tokens in blocks of so many,
  /// or is not used.
  std::int64_t streams = 0, stream_rank = 32, index_block = 0;
  /// The layer that reads n-gram embeddings: two rows of a table for each of the last two tokens, and for each of the last three. -1: none.
  std::int64_t ngram_layer = -1;
  bool faint = false;             ///< layers change the residual stream little, so that the last token tells most of the next
  std::int64_t nextn_layers = 0;  ///< after the last, which predict a further token
  bool nextn_output = false;      ///< and have embeddings and an output of their own
  bool output = true;             ///< else the embedding is that, too, and norms after attention and feed-forward outshout it
};
inline constexpr std::int64_t kExperts = 9, kExpertsUsed = 4;

/// Whether models made from now on are wider and quieter. Wider: rows of all matrices are whole blocks of 256. Quieter: what a layer adds
/// to the residual stream is about a quarter of it, as in trained models (SmolLM2-135M: 0.28, median of layers 2 to 29).
inline bool wide = false;

inline Shape sized(Shape shape) {
  if (!wide) return shape;
  shape.kv_heads = shape.kv_heads == shape.heads ? 8 : shape.kv_heads > 1 ? 4 : 1;
  if (shape.shared_ffn > 0) shape.shared_ffn = 256 * std::max<std::int64_t>(1, shape.shared_ffn / shape.expert_ffn);
  shape.expert_ffn = shape.expert_ffn == shape.ffn ? 512 : 256;
  shape.heads = shape.head_dim == 100 ? 16 : 8, shape.dim = 256, shape.ffn = 512;  // two ranks can share them
  if (shape.query_rank > 0) shape.query_rank = 256;
  if (shape.latent_rank > 0) shape.latent_rank = 256;
  if (shape.expert_dim > 0) shape.expert_dim = 256;
  shape.stream_rank = 256;
  if (shape.state_heads > 0) shape.state_heads = shape.layout ? 16 : 8;
  if (shape.state_key_heads == 3) shape.state_key_heads = 4;
  return shape;
}

class Builder {
 public:
  explicit Builder(const Shape& shape) : s(sized(shape)), m(shape.architecture) {
    m.count("block_count", s.layers + s.nextn_layers)
        .count("context_length", 512)
        .count("embedding_length", s.dim)
        .count("feed_forward_length", s.ffn);
    m.count("attention.head_count", s.heads).count("rope.dimension_count", s.rotary_dim);
    if (s.taps > 0) m.count("shortconv.l_cache", s.taps);
    if (s.taps > 0 || s.layout)
      describe_layers();
    else
      m.count("attention.head_count_kv", s.kv_heads);
    if (s.state_heads > 0) describe_states();
    if (s.latent_rank > 0)
      describe_latents();
    else if (s.heads * s.head_dim != s.dim)
      m.count("attention.key_length", s.head_dim).count("attention.value_length", s.head_dim);
    m.real(s.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 1e-5);
    m.tensor("token_embd.weight", {s.dim, ModelWriter::kVocabulary}, s.output ? Like::kEmbedding : Like::kOutput);
    s.streams > 0 ? describe_streams() : norm(s.output_norm);
    if (s.output) m.tensor("output.weight", {s.dim, ModelWriter::kVocabulary}, Like::kOutput);
    if (s.output_bias) vector("output.bias", ModelWriter::kVocabulary);
    if (s.experts > 0) {
      m.count("expert_count", s.experts).count("expert_used_count", kExpertsUsed);
      if (s.expert_ffn != s.ffn) m.count("expert_feed_forward_length", s.expert_ffn);
      if (s.expert_dim > 0) m.count("moe_latent_size", s.expert_dim);
      if (s.shared_ffn > 0) m.count("expert_shared_feed_forward_length", s.shared_ffn);
      if (s.dense_layers > 0) m.count("leading_dense_block_count", s.dense_layers);
    }
    for (std::int64_t layer = 0; layer < s.layers + s.nextn_layers; ++layer) add_layer(layer);
    if (s.nextn_layers > 0) m.count("nextn_predict_layers", s.nextn_layers);
  }

  const Shape s;
  ModelWriter m;

  void vector(const std::string& name, std::int64_t n, Like like = Like::kBias) { m.tensor(at_ + name, {n}, like); }

 private:
  void norm(const std::string& name) {
    m.tensor(at_ + name + ".weight", {s.dim}, norm_like(name));
    if (s.layer_norm && s.norm_bias) m.tensor(at_ + name + ".bias", {s.dim}, Like::kBias);
  }
  /// Of a norm after a block, which is what the layer adds to the residual stream; or of any other norm.
  Like norm_like(const std::string& name) const {
    const bool after = name == "post_ffw_norm" || (name == "post_attention_norm" && s.norms.back() == std::string_view("post_ffw_norm"));
    if (!after) return Like::kNorm;
    if (s.output) return wide ? Like::kQuietNorm : Like::kNorm;
    return wide && !at_.starts_with("blk.0.") ? Like::kLaterNorm : Like::kLoudNorm;
  }
  /// What a layer adds to the residual stream is a product with one of these.
  Like like(const std::string& name) const {
    const bool adds = name == "attn_output" || name == "ssm_out" || name == "shortconv.out_proj" || name == "ffn_latent_up" ||
                      name.starts_with("ffn_down");
    if (!adds) return Like::kMatrix;
    return s.faint ? Like::kFaint : wide ? Like::kQuiet : Like::kMatrix;
  }
  void matrix(const std::string& name, std::int64_t cols, std::int64_t rows, bool bias) {
    m.tensor(at_ + name + ".weight", {cols, rows}, like(name));
    if (bias) vector(name + ".bias", rows);
    if (s.scales) scale(name, 1);
  }
  void scale(const std::string& name, std::int64_t count) {
    m.tensor(at_ + name + ".scale", {count}, Like::kNorm);
    m.tensor(at_ + name + ".input_scale", {count}, Like::kNorm);
  }

  std::int64_t value_dim() const { return s.plain_dim + 16; }

  void describe_latents() {
    m.count("attention.kv_lora_rank", s.latent_rank);
    if (s.query_rank > 0) m.count("attention.q_lora_rank", s.query_rank);
    const std::int64_t key = s.plain_dim + s.rotary_dim;
    m.count("attention.key_length", s.merged_keys ? key : s.latent_rank + s.rotary_dim);
    m.count("attention.value_length", s.merged_keys ? value_dim() : s.latent_rank);
    if (!s.merged_keys) m.count("attention.key_length_mla", key).count("attention.value_length_mla", value_dim());
    if (s.picked == 0) return;
    m.count("attention.indexer.head_count", s.index_heads).count("attention.indexer.key_length", s.index_dim);
    m.count("attention.indexer.top_k", s.picked);
    if (!s.indexed.empty()) m.flags("attention.indexer.types", s.indexed);
  }

  void describe_states() {
    m.count("ssm.conv_kernel", 4).count("ssm.inner_size", s.state_heads * s.state_dim);
    m.count("ssm.state_size", s.layout ? s.state_key_dim : s.state_dim);
    m.count("ssm.time_step_rank", s.state_heads).count("ssm.group_count", s.state_key_heads);
  }

  void describe_streams() {
    m.count("hyper_connection.count", s.streams).count("hyper_connection.low_rank", s.stream_rank);
    m.count("attention.indexer.head_count", 3).count("attention.indexer.key_length", s.head_dim);
    m.count("attention.indexer.top_k", s.index_block > 0 ? s.picked : 64);
    if (s.index_block > 0) {
      std::vector<std::int32_t> blocks;
      for (std::int64_t layer = 0; layer < s.layers + s.nextn_layers; ++layer)
        blocks.push_back(attends(layer) ? static_cast<std::int32_t>(s.index_block) : 0);
      m.counts("attention.compress_ratios", blocks);
    }
    add_mix("output_hc");
    if (s.ngram_layer >= 0) describe_ngrams();
  }

  void describe_ngrams() {
    m.counts("ple.layers", {static_cast<std::int32_t>(s.ngram_layer)}).count("ple.ngram_size", 3).count("ple.heads_per_ngram", 2);
    m.count("ple.conv_kernel", 4).count("ple.eos_token_id", 445).count("embedding_length_per_layer_input", s.dim / 4);
    m.wide_counts("ple.layer_multipliers", {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u});
    m.wide_counts("ple.head_offsets", {0, 101, 204, 311}).wide_counts("ple.head_vocab_sizes", {101, 103, 107, 109});
    m.tensor("per_layer_token_embd.weight", {s.dim / 4, 432}, Like::kEmbedding);
  }

  void add_ngrams() {
    const std::int64_t all = s.streams * s.dim;
    matrix("ple_key", s.dim, all, false);
    matrix("ple_value", s.dim, s.dim, false);
    for (const char* name : {"ple_norm_key.weight", "ple_norm_query.weight", "ple_norm_conv.weight"}) vector(name, all, Like::kNorm);
    m.tensor(at_ + "ple_conv1d.weight", {4, all}, Like::kTaps);
  }

  /// A mix after which blocks write has weights of the streams.
  void add_mix(const std::string& name) {
    const std::int64_t all = s.streams * s.dim;
    vector(name + "_norm.weight", all, Like::kNorm);
    matrix(name + "_down", all, s.stream_rank, false);
    matrix(name + "_up", s.stream_rank, all, false);
    if (!at_.empty() && !name.starts_with("nextn.")) matrix(name + "_inject", all, s.streams, false);
  }

  void describe_layers() {
    std::vector<std::int32_t> kv_heads, ffn;
    for (std::int64_t layer = 0; layer < s.layers; ++layer) {
      kv_heads.push_back(attends(layer) ? static_cast<std::int32_t>(s.kv_heads) : 0);
      ffn.push_back(feeds(layer) ? static_cast<std::int32_t>(s.ffn) : 0);
    }
    m.counts("attention.head_count_kv", kv_heads);
    if (s.alone) m.counts("feed_forward_length", ffn);
  }

  void add_convolution() {
    matrix("shortconv.in_proj", s.dim, 3 * s.dim, false);
    m.tensor(at_ + "shortconv.conv.weight", {s.taps, s.dim}, Like::kTaps);
    matrix("shortconv.out_proj", s.dim, s.dim, false);
  }

  bool scans(std::int64_t layer) const { return s.layout && s.layout[layer] == 'M'; }
  bool feeds(std::int64_t layer) const { return !s.alone || s.layout[layer] == '-'; }
  bool attends(std::int64_t layer) const {
    if (s.layout) return s.layout[layer] == '*';
    if (s.taps > 0) return layer % 3 == 1;
    return s.state_heads == 0 || layer % 4 == 3 || layer >= s.layers;
  }

  void add_rule() {
    const std::int64_t keys = s.state_key_heads * s.state_dim, values = s.state_heads * s.state_dim;
    matrix("attn_qkv", s.dim, 2 * keys + values, false);
    matrix("attn_gate", s.dim, values, false);
    m.tensor(at_ + "ssm_conv1d.weight", {4, 2 * keys + values}, Like::kTaps);
    if (s.joint_gates) matrix("ssm_ba", s.dim, 2 * s.state_heads, false);
    if (!s.joint_gates) matrix("ssm_beta", s.dim, s.state_heads, false), matrix("ssm_alpha", s.dim, s.state_heads, false);
    vector("ssm_a", s.state_heads, Like::kRate);
    vector("ssm_dt.bias", s.state_heads);
    vector("ssm_norm.weight", s.state_dim, Like::kNorm);
    matrix("ssm_out", values, s.dim, false);
  }

  void add_scan() {
    const std::int64_t keys = s.state_key_heads * s.state_key_dim, values = s.state_heads * s.state_dim;
    matrix("ssm_in", s.dim, 2 * (values + keys) + s.state_heads, false);
    m.tensor(at_ + "ssm_conv1d.weight", {4, values + 2 * keys}, Like::kTaps);
    vector("ssm_conv1d.bias", values + 2 * keys);
    m.tensor(at_ + "ssm_a", {1, s.state_heads}, Like::kRate);
    vector("ssm_dt.bias", s.state_heads);
    m.tensor(at_ + "ssm_d", {1, s.state_heads}, Like::kNorm);
    m.tensor(at_ + "ssm_norm.weight", {values / s.state_key_heads, s.state_key_heads}, Like::kNorm);
    matrix("ssm_out", values, s.dim, false);
  }

  void add_attention(std::int64_t layer) {
    const std::int64_t queries = s.heads * s.head_dim, keys = s.kv_heads * s.head_dim;
    if (s.latent_rank > 0) {
      add_latents(layer);
    } else if (s.fused_qkv) {
      matrix("attn_qkv", s.dim, queries + 2 * keys, s.qkv_bias);
    } else {
      matrix("attn_q", s.dim, s.state_heads > 0 && !s.layout ? 2 * queries : queries, s.qkv_bias);
      matrix("attn_k", s.dim, keys, s.qkv_bias);
      matrix("attn_v", s.dim, keys, s.qkv_bias);
    }
    if (s.qk_norm == Shape::kEachHead) {
      m.tensor(at_ + "attn_q_norm.weight", {s.head_dim, s.heads}, Like::kNorm);
      m.tensor(at_ + "attn_k_norm.weight", {s.head_dim, s.kv_heads}, Like::kNorm);
    } else if (s.qk_norm != Shape::kNone) {
      m.tensor(at_ + "attn_q_norm.weight", {s.qk_norm == Shape::kHead ? s.head_dim : queries}, Like::kNorm);
      m.tensor(at_ + "attn_k_norm.weight", {s.qk_norm == Shape::kHead ? s.head_dim : keys}, Like::kNorm);
    }
    matrix("attn_output", s.latent_rank > 0 ? s.heads * value_dim() : queries, s.dim, s.other_bias || s.expert_bias);
    if (s.sinks) vector("attn_sinks.weight", s.heads);
    if (s.streams > 0) add_raw_index();
  }

  void add_raw_index() {
    matrix("indexer.q_proj", s.dim, 3 * s.head_dim, false);
    matrix("indexer.k_proj", s.dim, s.head_dim, false);
    vector("indexer.q_norm.weight", s.head_dim, Like::kNorm);
    vector("indexer.k_norm.weight", s.head_dim, Like::kNorm);
  }

  void add_index() {
    matrix("indexer.attn_q_b", s.query_rank, s.index_heads * s.index_dim, false);
    matrix("indexer.attn_k", s.dim, s.index_dim, false);
    vector("indexer.k_norm.weight", s.index_dim, Like::kNorm);
    vector("indexer.k_norm.bias", s.index_dim);
    matrix("indexer.proj", s.dim, s.index_heads, false);
  }

  void add_latents(std::int64_t layer) {
    const std::int64_t queries = s.heads * (s.plain_dim + s.rotary_dim);
    if (s.query_rank > 0) {
      matrix("attn_q_a", s.dim, s.query_rank, false);
      m.tensor(at_ + "attn_q_a_norm.weight", {s.query_rank}, Like::kNorm);
    }
    s.query_rank > 0 ? matrix("attn_q_b", s.query_rank, queries, false) : matrix("attn_q", s.dim, queries, false);
    matrix("attn_kv_a_mqa", s.dim, s.latent_rank + s.rotary_dim, false);
    m.tensor(at_ + "attn_kv_a_norm.weight", {s.latent_rank}, Like::kNorm);
    if (s.picked > 0 && (s.indexed.empty() || layer >= s.layers || s.indexed[static_cast<std::size_t>(layer)])) add_index();
    if (s.merged_keys) return matrix("attn_kv_b", s.latent_rank, s.heads * (s.plain_dim + value_dim()), false);
    m.tensor(at_ + "attn_k_b.weight", {s.plain_dim, s.latent_rank, s.heads}, Like::kMatrix);
    m.tensor(at_ + "attn_v_b.weight", {s.latent_rank, value_dim(), s.heads}, Like::kMatrix);
  }

  void add_layer(std::int64_t layer) {
    at_ = "blk." + std::to_string(layer) + ".";
    for (const char* name : s.norms) norm(name);
    if (s.streams > 0) add_mix("hc_attn"), add_mix("hc_ffn");
    if (layer == s.ngram_layer) add_ngrams();
    if (attends(layer)) add_attention(layer);
    if (scans(layer)) add_scan();
    if (!attends(layer) && !s.layout) s.taps > 0 ? add_convolution() : add_rule();
    if (feeds(layer)) add_feed_forward(layer);
    if (layer >= s.layers) add_nextn();
    at_.clear();
  }

  void add_feed_forward(std::int64_t layer) {
    if (s.experts > 0 && layer >= s.dense_layers && layer % s.expert_period == s.expert_period - 1)
      add_experts();
    else
      add_dense();
  }

  void add_nextn() {
    m.tensor(at_ + "nextn.eh_proj.weight", {2 * s.dim, s.dim}, Like::kFusion);
    vector("nextn.enorm.weight", s.dim, Like::kNorm);
    vector("nextn.hnorm.weight", std::max<std::int64_t>(1, s.streams) * s.dim, Like::kNorm);
    s.streams > 0 ? add_mix("nextn.hc_head") : vector("nextn.shared_head_norm.weight", s.dim, Like::kNorm);
    if (!s.nextn_output) return;
    m.tensor(at_ + "nextn.embed_tokens.weight", {s.dim, ModelWriter::kVocabulary}, Like::kEmbedding);
    m.tensor(at_ + "nextn.shared_head_head.weight", {s.dim, ModelWriter::kVocabulary}, Like::kOutput);
  }

  void add_dense() {
    if (s.feed_forward == Shape::kGated) matrix("ffn_gate", s.dim, s.ffn, s.other_bias);
    matrix("ffn_up", s.dim, s.feed_forward == Shape::kFusedGate ? 2 * s.ffn : s.ffn, s.other_bias);
    matrix("ffn_down", s.ffn, s.dim, s.other_bias);
  }

  void add_experts() {
    m.tensor(at_ + "ffn_gate_inp.weight", {s.dim, s.experts}, Like::kRouter);
    if (s.expert_bias) vector("ffn_gate_inp.bias", s.experts);
    if (s.choice_bias) vector("exp_probs_b.bias", s.experts);
    if (s.shared_score) m.tensor(at_ + "ffn_gate_inp_shexp.weight", {s.dim}, Like::kRouter);
    if (s.fused_experts) m.tensor(at_ + "ffn_gate_up_exps.weight", {s.dim, 2 * s.expert_ffn, s.experts}, Like::kMatrix);
    const std::int64_t width = s.expert_dim > 0 ? s.expert_dim : s.dim;
    if (s.expert_dim > 0) matrix("ffn_latent_down", s.dim, width, false), matrix("ffn_latent_up", width, s.dim, false);
    for (const std::string part : {"gate", "up", "down"}) {
      const std::int64_t cols = part == "down" ? s.expert_ffn : width, rows = part == "down" ? width : s.expert_ffn;
      if (part == "gate" && s.feed_forward == Shape::kPlain) continue;
      const std::string merged = at_ + "ffn_" + part + "_exps.weight";
      if (!s.single_experts && !(s.fused_experts && part != "down")) m.tensor(merged, {cols, rows, s.experts}, like("ffn_" + part));
      if (s.scales) scale("ffn_" + part + "_exps", s.experts);
      if (s.expert_bias) m.tensor(at_ + "ffn_" + part + "_exps.bias", {rows, s.experts}, Like::kBias);
      for (std::int64_t e = 0; s.single_experts && e < s.experts; ++e) {
        const std::string number = "." + std::to_string(e);
        m.tensor(at_ + "ffn_" + part + number + ".weight", {cols, rows}, Like::kMatrix, merged + number);
      }
      if (s.shared_ffn > 0)
        matrix("ffn_" + part + "_shexp", part == "down" ? s.shared_ffn : s.dim, part == "down" ? s.dim : s.shared_ffn, false);
    }
  }

  std::string at_;  // "blk.N." within a layer
};

/// A variant, and what builds it.
struct Variant {
  const char* name;
  Builder (*make)() = nullptr;
  ModelWriter (*write)() = nullptr;  ///< instead, if its layers differ in their sizes
};
/// Families of 2025.
std::span<const Variant> variants_of_2025();
/// And of 2026.
std::span<const Variant> variants_of_2026();
/// Families whose layers have states; and those of them with MTP layers, and without.
std::span<const Variant> variants_with_states();
std::span<const Variant> nextn_variants_with_states();

}  // namespace yamata::families_test
