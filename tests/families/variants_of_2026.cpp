#include "tests/families/tiny_builder.hpp"

namespace yamata::families_test {
namespace {

/// Gemma 4: layers with a sliding window have smaller heads, and more of them for keys and values.
struct Gemma4 {
  std::int64_t dim = 192, heads = 6, head_dim = 64, window_head_dim = 32, ffn = 320;
  std::vector<bool> windows{true, false, true, true, false};
  std::int64_t input_dim = 0, shared = 0;  ///< per-layer embeddings; layers that share keys and values
  bool tied_values = false;                ///< layers without a window make values from keys
  std::int64_t experts = 0, expert_ffn = 96;

  std::int64_t layers() const { return std::ssize(windows); }
  bool windowed(std::int64_t layer) const { return windows[static_cast<std::size_t>(layer)]; }
  bool shares(std::int64_t layer) const { return layer >= layers() - shared; }
  std::int64_t kv_heads(std::int64_t layer) const { return windowed(layer) ? 3 : 2; }
  std::int64_t width(std::int64_t layer) const { return windowed(layer) ? window_head_dim : head_dim; }
  std::int64_t ffn_of(std::int64_t layer) const { return shares(layer) ? 2 * ffn : ffn; }
};

Gemma4 sized(Gemma4 shape) {
  if (!wide) return shape;
  shape.dim = 256, shape.ffn = 512, shape.expert_ffn = 256;
  if (shape.input_dim > 0) shape.input_dim = 256;
  return shape;
}

void describe(ModelWriter& m, const Gemma4& s) {
  std::vector<std::int32_t> kv_heads, ffn;
  for (std::int64_t layer = 0; layer < s.layers(); ++layer) {
    kv_heads.push_back(static_cast<std::int32_t>(s.kv_heads(layer)));
    ffn.push_back(static_cast<std::int32_t>(s.ffn_of(layer)));
  }
  m.count("block_count", s.layers()).count("context_length", 512).count("embedding_length", s.dim);
  m.counts("feed_forward_length", ffn).count("attention.head_count", s.heads).counts("attention.head_count_kv", kv_heads);
  m.count("attention.key_length", s.head_dim).count("attention.value_length", s.head_dim).count("rope.dimension_count", s.head_dim);
  m.count("attention.key_length_swa", s.window_head_dim).count("attention.value_length_swa", s.window_head_dim);
  m.count("rope.dimension_count_swa", s.window_head_dim).real("rope.freq_base", 1e6).real("rope.freq_base_swa", 1e4);
  m.count("attention.sliding_window", kWindow).flags("attention.sliding_window_pattern", s.windows);
  m.count("attention.shared_kv_layers", s.shared).count("embedding_length_per_layer_input", s.input_dim);
  m.real("attention.layer_norm_rms_epsilon", 1e-5).real("final_logit_softcapping", 10);
  if (s.experts > 0)
    m.count("expert_count", s.experts).count("expert_used_count", kExpertsUsed).count("expert_feed_forward_length", s.expert_ffn);
}

void add_attention(ModelWriter& m, const Gemma4& s, std::int64_t layer, const std::string& at) {
  const std::int64_t queries = s.heads * s.width(layer), keys = s.kv_heads(layer) * s.width(layer);
  m.tensor(at + "attn_q.weight", {s.dim, queries}, Like::kMatrix);
  m.tensor(at + "attn_q_norm.weight", {s.width(layer)}, Like::kQuietNorm);  // attention scores are not divided
  if (!s.shares(layer)) {
    m.tensor(at + "attn_k.weight", {s.dim, keys}, Like::kMatrix);
    m.tensor(at + "attn_k_norm.weight", {s.width(layer)}, Like::kNorm);
    if (!s.tied_values || s.windowed(layer)) m.tensor(at + "attn_v.weight", {s.dim, keys}, Like::kMatrix);
  }
  m.tensor(at + "attn_output.weight", {queries, s.dim}, wide ? Like::kQuiet : Like::kMatrix);
}

void add_experts(ModelWriter& m, const Gemma4& s, const std::string& at, Like after) {
  m.tensor(at + "ffn_gate_inp.weight", {s.dim, s.experts}, Like::kRouter);
  m.tensor(at + "ffn_gate_inp.scale", {s.dim}, Like::kLoudNorm);  // is divided by the root of their number
  m.tensor(at + "pre_ffw_norm_2.weight", {s.dim}, Like::kNorm);
  for (const char* name : {"post_ffw_norm_1", "post_ffw_norm_2"}) m.tensor(at + name + ".weight", {s.dim}, after);
  m.tensor(at + "ffn_gate_up_exps.weight", {s.dim, 2 * s.expert_ffn, s.experts}, Like::kMatrix);
  m.tensor(at + "ffn_down_exps.weight", {s.expert_ffn, s.dim, s.experts}, Like::kMatrix);
  m.tensor(at + "ffn_down_exps.scale", {s.experts}, Like::kNorm);
}

ModelWriter write_gemma4(const Gemma4& unsized_shape) {
  const Gemma4 s = sized(unsized_shape);
  ModelWriter m("gemma4");
  describe(m, s);
  m.tensor("token_embd.weight", {s.dim, ModelWriter::kVocabulary}, Like::kOutput);
  m.tensor("output_norm.weight", {s.dim}, Like::kNorm);
  m.tensor("rope_freqs.weight", {s.head_dim / 2}, Like::kNorm);
  if (s.input_dim > 0) {
    m.tensor("per_layer_token_embd.weight", {s.layers() * s.input_dim, ModelWriter::kVocabulary}, Like::kEmbedding);
    m.tensor("per_layer_model_proj.weight", {s.dim, s.layers() * s.input_dim}, Like::kMatrix);
    m.tensor("per_layer_proj_norm.weight", {s.input_dim}, Like::kNorm);
  }
  for (std::int64_t layer = 0; layer < s.layers(); ++layer) {
    const std::string at = "blk." + std::to_string(layer) + ".";
    const Like after = wide && layer > 0 ? Like::kLaterNorm : Like::kLoudNorm;
    for (const char* name : {"attn_norm", "ffn_norm"}) m.tensor(at + name + ".weight", {s.dim}, Like::kNorm);
    for (const char* name : {"post_attention_norm", "post_ffw_norm"}) m.tensor(at + name + ".weight", {s.dim}, after);
    m.tensor(at + "layer_output_scale.weight", {1}, Like::kNorm);
    add_attention(m, s, layer, at);
    m.tensor(at + "ffn_gate.weight", {s.dim, s.ffn_of(layer)}, Like::kMatrix);
    m.tensor(at + "ffn_up.weight", {s.dim, s.ffn_of(layer)}, Like::kMatrix);
    m.tensor(at + "ffn_down.weight", {s.ffn_of(layer), s.dim}, wide ? Like::kQuiet : Like::kMatrix);
    if (s.experts > 0) add_experts(m, s, at, Like::kNorm);
    if (s.input_dim == 0) continue;
    m.tensor(at + "inp_gate.weight", {s.dim, s.input_dim}, Like::kMatrix);
    m.tensor(at + "proj.weight", {s.input_dim, s.dim}, Like::kMatrix);
    m.tensor(at + "post_norm.weight", {s.dim}, Like::kLaterNorm);
  }
  return m;
}

/// Like the 31B model.
ModelWriter make_gemma4() { return write_gemma4({.tied_values = true}); }
/// Like E2B.
ModelWriter make_gemma4_shared() {
  return write_gemma4({.windows = {true, false, true, false, true, false, true}, .input_dim = 64, .shared = 3});
}
/// Like the 26B model.
ModelWriter make_gemma4_experts() { return write_gemma4({.tied_values = true, .experts = kExperts}); }

constexpr Variant kVariantsOf2026[] = {
    {"gemma4", nullptr, make_gemma4},
    {"gemma4-shared", nullptr, make_gemma4_shared},
    {"gemma4-experts", nullptr, make_gemma4_experts},
};

}  // namespace

std::span<const Variant> variants_of_2026() { return kVariantsOf2026; }

}  // namespace yamata::families_test
