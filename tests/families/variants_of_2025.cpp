#include "tests/families/tiny_builder.hpp"

namespace yamata::families_test {
namespace {

/// Tokens after which the scale of queries grows, in texts of 88.
constexpr std::int64_t kScaleLength = 20;

Builder make_smollm3() { return Builder({.architecture = "smollm3", .layers = 5}); }
Builder make_seed_oss() {
  return Builder({.architecture = "seed_oss", .heads = 5, .kv_heads = 1, .norms = {"attn_norm", "post_attention_norm"}, .qkv_bias = true});
}
Shape exaone4() {
  Shape shape{.architecture = "exaone4", .norms = {"post_attention_norm", "post_ffw_norm"}};
  shape.qk_norm = Shape::kHead;
  return shape;
}
Builder make_exaone4() {
  Builder b(exaone4());
  b.m.tensor("rope_freqs.weight", {16}, Like::kNorm);
  return b;
}
/// llama.cpp recognises the large model, whose layers have windows, by its 64 layers.
Builder make_exaone4_windows() {
  Shape shape = exaone4();
  shape.layers = 64, shape.dim = shape.ffn = 64, shape.heads = 2, shape.kv_heads = 1;
  Builder b(shape);
  b.m.count("attention.sliding_window", kWindow);
  return b;
}
Shape hunyuan(const char* architecture) {
  Shape shape{.architecture = architecture, .heads = 5, .kv_heads = 1};
  shape.qk_norm = Shape::kHead;
  return shape;
}
Builder make_hunyuan_dense() { return Builder(hunyuan("hunyuan-dense")); }
Builder make_ernie4_5() { return Builder({.architecture = "ernie4_5", .heads = 5, .kv_heads = 1}); }
Builder make_mistral3() {
  Builder b({.architecture = "mistral3"});
  b.m.real("attention.temperature_scale", 0.3).text("rope.scaling.type", "yarn").real("rope.scaling.factor", 16);
  b.m.count("rope.scaling.original_context_length", kScaleLength).real("rope.scaling.yarn_log_multiplier", 1);
  b.m.real("rope.scaling.yarn_beta_fast", 4).real("rope.scaling.yarn_beta_slow", 1);
  return b;
}
Builder make_minimax_m2() {
  Shape shape{.architecture = "minimax-m2", .heads = 5, .kv_heads = 1, .rotary_dim = 16};
  shape.qk_norm = Shape::kToken, shape.choice_bias = true, shape.experts = kExperts, shape.ffn = shape.expert_ffn;
  Builder b(shape);
  b.m.count("expert_gating_func", 2).count("expert_feed_forward_length", b.s.expert_ffn);
  return b;
}
Builder make_hunyuan_moe() {
  Shape shape = hunyuan("hunyuan-moe");
  shape.experts = kExperts, shape.ffn = shape.expert_ffn, shape.shared_ffn = 160;
  Builder b(shape);
  b.m.count("expert_feed_forward_length", b.s.expert_ffn);
  return b;
}
Builder make_ernie4_5_moe() {
  Shape shape{.architecture = "ernie4_5-moe"};
  shape.experts = kExperts, shape.shared_ffn = 2 * shape.expert_ffn, shape.choice_bias = true;
  shape.dense_layers = 1;
  Builder b(shape);
  b.m.count("interleave_moe_layer_step", 1);
  return b;
}
Builder make_llama4() {
  Shape shape{.architecture = "llama4", .layers = 5};
  shape.experts = kExperts, shape.shared_ffn = shape.expert_ffn, shape.expert_period = 2;
  Builder b(shape);
  b.m.count("interleave_moe_layer_step", shape.expert_period).tensor("rope_freqs.weight", {16}, Like::kNorm);
  return b;
}
/// The model with 128 experts has no norms of heads.
Builder make_llama4_large() {
  Shape shape{.architecture = "llama4", .dim = 96, .heads = 3, .kv_heads = 1, .ffn = 96};
  shape.experts = 128, shape.shared_ffn = shape.expert_ffn = 64, shape.expert_period = 4;
  Builder b(shape);
  b.m.count("interleave_moe_layer_step", shape.expert_period);
  return b;
}
Shape latent(const char* architecture) {
  Shape shape{.architecture = architecture, .heads = 5, .kv_heads = 1, .rotary_dim = 16};
  shape.latent_rank = 64, shape.query_rank = 96, shape.experts = kExperts, shape.shared_ffn = shape.expert_ffn, shape.dense_layers = 1;
  return shape;
}
void scale_queries(Builder& b) {
  b.m.count("expert_shared_count", 1).boolean("expert_weights_norm", true).text("rope.scaling.type", "yarn");
  b.m.real("rope.scaling.factor", 16).count("rope.scaling.original_context_length", 128).real("rope.scaling.yarn_log_multiplier", 0.1);
  b.m.real("attention.temperature_scale", 0.3).count("attention.temperature_length", kScaleLength);
}
Builder make_mistral4() {
  Shape shape = latent("mistral4");
  shape.fused_experts = true;
  Builder b(shape);
  scale_queries(b);
  return b;
}
/// Like Mistral Large 3.
Builder make_deepseek2_scaled() {
  Builder b(latent("deepseek2"));
  scale_queries(b);
  return b;
}
/// More than the texts of 88 tokens have, or fewer.
constexpr std::int64_t kAllPicked = 128, kSomePicked = 8;
/// Like DeepSeek-V3.2.
template <std::int64_t picked>
Builder make_deepseek32() {
  Shape shape = latent("deepseek32");
  shape.choice_bias = true, shape.picked = picked;
  Builder b(shape);
  b.m.count("expert_shared_count", 1).boolean("expert_weights_norm", true).real("expert_weights_scale", 2.5).count("expert_gating_func", 2);
  b.m.count("expert_group_count", 3).count("expert_group_used_count", 2).text("rope.scaling.type", "yarn").real("rope.scaling.factor", 40);
  b.m.count("rope.scaling.original_context_length", 128).real("rope.scaling.yarn_log_multiplier", 0.1);
  return b;
}
/// Like GLM 5.2: some layers attend to what another has picked.
template <std::int64_t picked>
Builder make_glm_dsa() {
  Shape shape = latent("glm-dsa");
  shape.layers = 5, shape.choice_bias = true, shape.picked = picked, shape.indexed = {true, false, false, false, true};
  Builder b(shape);
  b.m.count("expert_shared_count", 1).boolean("expert_weights_norm", true).real("expert_weights_scale", 2.5);
  return b;
}

Builder make_qwen2vl() {
  Builder b({.architecture = "qwen2vl", .qkv_bias = true});
  b.m.counts("rope.dimension_sections", {4, 6, 6, 0});
  return b;
}
Shape qwen3vl(const char* architecture) {
  Shape shape{.architecture = architecture, .heads = 5, .kv_heads = 1};
  shape.qk_norm = Shape::kHead;
  return shape;
}
Builder make_qwen3vl() {
  Builder b(qwen3vl("qwen3vl"));
  b.m.counts("rope.dimension_sections", {6, 5, 5, 0}).count("n_deepstack_layers", 3);
  return b;
}
Builder make_qwen3vlmoe() {
  Shape shape = qwen3vl("qwen3vlmoe");
  shape.experts = kExperts;
  Builder b(shape);
  b.m.counts("rope.dimension_sections", {6, 5, 5, 0}).count("n_deepstack_layers", 3);
  return b;
}

constexpr Variant kVariants[] = {
    {"smollm3", make_smollm3},
    {"seed_oss", make_seed_oss},
    {"exaone4", make_exaone4},
    {"exaone4-windows", make_exaone4_windows},
    {"hunyuan-dense", make_hunyuan_dense},
    {"ernie4_5", make_ernie4_5},
    {"mistral3", make_mistral3},
    {"minimax-m2", make_minimax_m2},
    {"hunyuan-moe", make_hunyuan_moe},
    {"ernie4_5-moe", make_ernie4_5_moe},
    {"llama4", make_llama4},
    {"llama4-large", make_llama4_large},
    {"mistral4", make_mistral4},
    {"deepseek2-scaled", make_deepseek2_scaled},
    {"deepseek32", make_deepseek32<kAllPicked>},
    {"deepseek32-sparse", make_deepseek32<kSomePicked>},
    {"glm-dsa", make_glm_dsa<kAllPicked>},
    {"glm-dsa-sparse", make_glm_dsa<kSomePicked>},
    {"qwen2vl", make_qwen2vl},
    {"qwen3vl", make_qwen3vl},
    {"qwen3vlmoe", make_qwen3vlmoe},
};

}  // namespace

std::span<const Variant> variants_of_2025() { return kVariants; }

}  // namespace yamata::families_test
