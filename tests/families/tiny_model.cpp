#include "tests/families/tiny_model.hpp"

#include <stdexcept>

#include "tests/families/model_writer.hpp"

namespace yamata::families_test {
namespace {

/// How a small model is shaped, and which tensors its layers have. Head counts are odd or the groups are; windows are shorter than the
/// text.
struct Shape {
  const char* architecture;
  std::int64_t layers = 4, dim = 192, heads = 6, kv_heads = 3, head_dim = 32, rotary_dim = 32, ffn = 320;
  bool layer_norm = false;  ///< with a bias each
  std::vector<const char*> norms{"attn_norm", "ffn_norm"};
  bool fused_qkv = false, qkv_bias = false, other_bias = false;
  bool expert_bias = false, choice_bias = false, shared_score = false, sinks = false;
  enum { kNone, kHead, kToken } qk_norm = kNone;
  enum { kGated, kFusedGate, kPlain } feed_forward = kGated;
  std::int64_t experts = 0, expert_ffn = 96, shared_ffn = 0, dense_layers = 0;
  bool single_experts = false;
  bool output = true;  ///< else the embedding is that, too, and norms after attention and feed-forward outshout it
};
constexpr std::int64_t kExperts = 9, kExpertsUsed = 4, kWindow = 16;

class Builder {
 public:
  explicit Builder(const Shape& shape) : s(shape), m(shape.architecture) {
    m.count("block_count", s.layers).count("context_length", 512).count("embedding_length", s.dim).count("feed_forward_length", s.ffn);
    m.count("attention.head_count", s.heads).count("attention.head_count_kv", s.kv_heads).count("rope.dimension_count", s.rotary_dim);
    m.real(s.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 1e-5);
    if (s.heads * s.head_dim != s.dim) m.count("attention.key_length", s.head_dim).count("attention.value_length", s.head_dim);
    m.tensor("token_embd.weight", {s.dim, ModelWriter::kVocabulary}, s.output ? Like::kEmbedding : Like::kOutput);
    norm("output_norm");
    if (s.output) m.tensor("output.weight", {s.dim, ModelWriter::kVocabulary}, Like::kOutput);
    if (s.experts > 0) {
      m.count("expert_count", s.experts).count("expert_used_count", kExpertsUsed);
      if (s.expert_ffn != s.ffn) m.count("expert_feed_forward_length", s.expert_ffn);
      if (s.shared_ffn > 0) m.count("expert_shared_feed_forward_length", s.shared_ffn);
      if (s.dense_layers > 0) m.count("leading_dense_block_count", s.dense_layers);
    }
    for (std::int64_t layer = 0; layer < s.layers; ++layer) add_layer(layer);
  }

  const Shape s;
  ModelWriter m;

  void vector(const std::string& name, std::int64_t n, Like like = Like::kBias) { m.tensor(at_ + name, {n}, like); }

 private:
  void norm(const std::string& name) {
    const bool loud = !s.output && name.starts_with("post_");
    m.tensor(at_ + name + ".weight", {s.dim}, loud ? Like::kLoudNorm : Like::kNorm);
    if (s.layer_norm) m.tensor(at_ + name + ".bias", {s.dim}, Like::kBias);
  }
  void matrix(const std::string& name, std::int64_t cols, std::int64_t rows, bool bias) {
    m.tensor(at_ + name + ".weight", {cols, rows}, Like::kMatrix);
    if (bias) vector(name + ".bias", rows);
  }

  void add_layer(std::int64_t layer) {
    at_ = "blk." + std::to_string(layer) + ".";
    for (const char* name : s.norms) norm(name);
    const std::int64_t queries = s.heads * s.head_dim, keys = s.kv_heads * s.head_dim;
    if (s.fused_qkv) {
      matrix("attn_qkv", s.dim, queries + 2 * keys, s.qkv_bias);
    } else {
      matrix("attn_q", s.dim, queries, s.qkv_bias);
      matrix("attn_k", s.dim, keys, s.qkv_bias);
      matrix("attn_v", s.dim, keys, s.qkv_bias);
    }
    if (s.qk_norm != Shape::kNone) {
      m.tensor(at_ + "attn_q_norm.weight", {s.qk_norm == Shape::kHead ? s.head_dim : queries}, Like::kNorm);
      m.tensor(at_ + "attn_k_norm.weight", {s.qk_norm == Shape::kHead ? s.head_dim : keys}, Like::kNorm);
    }
    matrix("attn_output", queries, s.dim, s.other_bias || s.expert_bias);
    if (s.sinks) vector("attn_sinks.weight", s.heads);
    if (s.experts > 0 && layer >= s.dense_layers)
      add_experts();
    else
      add_dense();
    at_.clear();
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
    for (const std::string part : {"gate", "up", "down"}) {
      const std::int64_t cols = part == "down" ? s.expert_ffn : s.dim, rows = part == "down" ? s.dim : s.expert_ffn;
      const std::string merged = at_ + "ffn_" + part + "_exps.weight";
      if (!s.single_experts) m.tensor(merged, {cols, rows, s.experts}, Like::kMatrix);
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

Shape llama() { return {.architecture = "llama"}; }
Shape mixtral() { return {.architecture = "llama", .experts = kExperts, .expert_ffn = 320}; }
Shape of_qwen(const char* architecture) { return {.architecture = architecture, .heads = 5, .kv_heads = 5, .qkv_bias = true}; }
Shape falcon(std::int64_t kv_heads, std::vector<const char*> norms) {
  return {.architecture = "falcon",
          .kv_heads = kv_heads,
          .layer_norm = true,
          .norms = std::move(norms),
          .fused_qkv = true,
          .feed_forward = Shape::kPlain};
}

Shape gemma(const char* architecture) {
  return {.architecture = architecture,
          .heads = 5,
          .kv_heads = 1,
          .norms = {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"},
          .output = false};
}
Shape phi3() {
  Shape shape{.architecture = "phi3", .fused_qkv = true};
  shape.feed_forward = Shape::kFusedGate;
  return shape;
}
Shape olmo2() {
  Shape shape{.architecture = "olmo2", .norms = {"post_attention_norm", "post_ffw_norm"}};
  shape.qk_norm = Shape::kToken;
  return shape;
}
Shape gptneox() {
  Shape shape{.architecture = "gptneox",
              .kv_heads = 6,
              .rotary_dim = 8,
              .layer_norm = true,
              .fused_qkv = true,
              .qkv_bias = true,
              .other_bias = true};
  shape.feed_forward = Shape::kPlain;
  return shape;
}
Shape glm4moe() {
  Shape shape{.architecture = "glm4moe", .rotary_dim = 16, .norms = {"attn_norm", "post_attention_norm"}, .qkv_bias = true};
  shape.choice_bias = true, shape.experts = kExperts, shape.shared_ffn = shape.expert_ffn, shape.dense_layers = 1;
  return shape;
}

/// What makes each variant.
using Make = Builder (*)();
struct Row {
  const char* name;
  Make make;
};

Builder make_llama() { return Builder(llama()); }
Builder make_llama_bias() {
  Shape shape = llama();
  shape.qkv_bias = shape.other_bias = true;
  return Builder(shape);
}
Builder make_mixtral() { return Builder(mixtral()); }
Builder make_mixtral_single() {
  Shape shape = mixtral();
  shape.single_experts = true;
  return Builder(shape);
}
Builder make_qwen() {
  Shape shape = of_qwen("qwen");
  shape.heads = shape.kv_heads = 6, shape.fused_qkv = true;
  Builder b(shape);
  b.m.count("feed_forward_length", 2 * b.s.ffn);  // gate and up together
  return b;
}
Builder make_qwen2() {
  Shape shape = of_qwen("qwen2");
  shape.heads = 6, shape.kv_heads = 2;
  return Builder(shape);
}
Builder make_qwen3() {
  Shape shape{.architecture = "qwen3", .heads = 5, .kv_heads = 1};
  shape.qk_norm = Shape::kHead;
  return Builder(shape);
}
Builder make_falcon_7b() { return Builder(falcon(1, {"attn_norm"})); }
Builder make_falcon_40b() { return Builder(falcon(2, {"attn_norm", "attn_norm_2"})); }
Builder make_qwen2moe() {
  Shape shape{.architecture = "qwen2moe", .qkv_bias = true};
  shape.shared_score = true, shape.experts = kExperts, shape.shared_ffn = 160;
  return Builder(shape);
}
Builder make_qwen3moe() {
  Shape shape{.architecture = "qwen3moe", .heads = 5, .kv_heads = 1};
  shape.qk_norm = Shape::kHead, shape.experts = kExperts;
  return Builder(shape);
}
Builder make_gemma2() {
  Builder b(gemma("gemma2"));
  b.m.count("attention.sliding_window", kWindow).real("attn_logit_softcapping", 2).real("final_logit_softcapping", 10);
  return b;
}
Builder make_gemma3() {
  Shape shape = gemma("gemma3");
  shape.qk_norm = Shape::kHead, shape.layers = 7;
  Builder b(shape);
  b.m.count("attention.sliding_window", kWindow).real("rope.freq_base", 1e6);
  b.m.text("rope.scaling.type", "linear").real("rope.scaling.factor", 8);
  return b;
}
Builder make_phi3() { return Builder(phi3()); }
Builder make_phi3_long() {
  Builder b(phi3());
  b.m.text("rope.scaling.type", "longrope").real("rope.scaling.attn_factor", 1.25).count("rope.scaling.original_context_length", 128);
  b.m.tensor("rope_factors_long.weight", {16}, Like::kNorm);
  b.m.tensor("rope_factors_short.weight", {16}, Like::kNorm);
  return b;
}
Builder make_olmo2() { return Builder(olmo2()); }
Builder make_olmo3() {
  Builder b(olmo2());
  b.m.count("attention.sliding_window", kWindow).text("rope.scaling.type", "linear").real("rope.scaling.factor", 4);
  return b;
}
Builder make_granite() {
  Builder b({.architecture = "granite"});
  b.m.real("logit_scale", 0.5).real("embedding_scale", 12).real("residual_scale", 0.22).real("attention.scale", 0.125);
  return b;
}
Builder make_glm4() {
  Shape shape{.architecture = "glm4", .rotary_dim = 16, .norms = {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"}};
  shape.qkv_bias = true, shape.feed_forward = Shape::kFusedGate;
  return Builder(shape);
}
Builder make_starcoder2() {
  Shape shape{.architecture = "starcoder2", .layer_norm = true, .qkv_bias = true, .other_bias = true};
  shape.feed_forward = Shape::kPlain;
  return Builder(shape);
}
Builder make_gptneox() {
  Builder b(gptneox());
  b.m.boolean("use_parallel_residual", true);
  return b;
}
Builder make_gptneox_sequential() {
  Builder b(gptneox());
  b.m.boolean("use_parallel_residual", false);
  return b;
}
Builder make_gpt_oss() {
  Shape shape{.architecture = "gpt-oss", .heads = 5, .kv_heads = 1, .norms = {"attn_norm", "post_attention_norm"}, .qkv_bias = true};
  shape.expert_bias = shape.sinks = true, shape.experts = kExperts;
  Builder b(shape);
  b.m.count("attention.sliding_window", kWindow).text("rope.scaling.type", "yarn").real("rope.scaling.factor", 32);
  b.m.count("rope.scaling.original_context_length", 128);
  return b;
}
Builder make_glm4moe() {
  Builder b(glm4moe());
  b.m.count("expert_shared_count", 1).boolean("expert_weights_norm", true).real("expert_weights_scale", 1.5).count("expert_gating_func", 2);
  return b;
}

constexpr Row kRows[] = {
    {"llama", make_llama},
    {"llama-bias", make_llama_bias},
    {"mixtral", make_mixtral},
    {"mixtral-single", make_mixtral_single},
    {"qwen", make_qwen},
    {"qwen2", make_qwen2},
    {"qwen3", make_qwen3},
    {"falcon-7b", make_falcon_7b},
    {"falcon-40b", make_falcon_40b},
    {"qwen2moe", make_qwen2moe},
    {"qwen3moe", make_qwen3moe},
    {"gemma2", make_gemma2},
    {"gemma3", make_gemma3},
    {"phi3", make_phi3},
    {"phi3-long", make_phi3_long},
    {"olmo2", make_olmo2},
    {"olmo3", make_olmo3},
    {"granite", make_granite},
    {"glm4", make_glm4},
    {"starcoder2", make_starcoder2},
    {"gptneox", make_gptneox},
    {"gptneox-sequential", make_gptneox_sequential},
    {"gpt-oss", make_gpt_oss},
    {"glm4moe", make_glm4moe},
};

}  // namespace

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

void write_tiny_model(const std::string& variant, TensorType type, const std::string& path, bool widened) {
  for (const Row& row : kRows) {
    if (variant == row.name) return row.make().m.write(type, widened, path);
  }
  throw std::out_of_range("no variant " + variant);
}

std::vector<std::int32_t> tiny_prompt() {
  std::vector<std::int32_t> ids{1};
  for (std::int32_t i = 0; i < 23; ++i) ids.push_back(260 + i * 37 % 250);
  return ids;
}

}  // namespace yamata::families_test
