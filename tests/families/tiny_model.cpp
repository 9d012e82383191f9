#include "tests/families/tiny_model.hpp"

#include <span>
#include <stdexcept>

#include "tests/families/tiny_builder.hpp"

namespace yamata::families_test {
namespace {

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

Builder make_llama() { return Builder(llama()); }
Builder make_llama_bias() {
  Shape shape = llama();
  shape.qkv_bias = shape.other_bias = true;
  return Builder(shape);
}
Builder make_llama_scale() {
  Shape shape = llama();
  shape.qkv_bias = shape.scales = true;
  return Builder(shape);
}
template <std::int64_t head_dim, std::int64_t heads, std::int64_t kv_heads>
Builder make_llama_heads() {
  Shape shape = llama();
  shape.heads = heads, shape.kv_heads = kv_heads, shape.head_dim = shape.rotary_dim = head_dim;
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
Builder make_qwen2_bias() {
  Shape shape = of_qwen("qwen2");
  shape.heads = 6, shape.kv_heads = 2, shape.output_bias = true;
  return Builder(shape);
}
Builder make_qwen3_heads() {
  Shape shape{.architecture = "qwen3", .heads = 8, .kv_heads = 2, .head_dim = 24, .rotary_dim = 24};
  shape.qk_norm = Shape::kHead;
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
Builder make_qwen3moe_scale() {
  Shape shape{.architecture = "qwen3moe", .heads = 5, .kv_heads = 1};
  shape.qk_norm = Shape::kHead, shape.experts = kExperts, shape.scales = true;
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
Builder make_command_r() {
  Shape shape{.architecture = "command-r", .norms = {"attn_norm"}, .output = false};
  shape.layer_norm = true, shape.norm_bias = false;
  Builder b(shape);
  b.m.real("logit_scale", 0.5);
  return b;
}
/// With as many layers as llama.cpp recognises Command R+ by.
Builder make_command_r_plus() {
  Shape shape{.architecture = "command-r", .layers = 64, .dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .rotary_dim = 16, .ffn = 96};
  shape.norms = {"attn_norm"}, shape.output = false;
  shape.layer_norm = true, shape.norm_bias = false, shape.qk_norm = Shape::kEachHead;
  Builder b(shape);
  b.m.real("logit_scale", 0.5);
  return b;
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
Builder make_gptneox_heads() {
  Shape shape = gptneox();
  shape.heads = shape.kv_heads = 24, shape.head_dim = 8, shape.rotary_dim = 4;
  Builder b(shape);
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

Shape deepseek2() {
  Shape shape{.architecture = "deepseek2", .heads = 5, .kv_heads = 1, .rotary_dim = 16};
  shape.latent_rank = 64, shape.experts = kExperts, shape.shared_ffn = 2 * shape.expert_ffn, shape.dense_layers = 1;
  return shape;
}
/// Like DeepSeek-V3: groups of experts, a sigmoid, YaRN with its own factor for scores.
Builder make_deepseek2() {
  Shape shape = deepseek2();
  shape.query_rank = 96, shape.choice_bias = true;
  Builder b(shape);
  b.m.count("expert_shared_count", 2).boolean("expert_weights_norm", true).real("expert_weights_scale", 2.5).count("expert_gating_func", 2);
  b.m.count("expert_group_count", 3).count("expert_group_used_count", 2).text("rope.scaling.type", "yarn").real("rope.scaling.factor", 40);
  b.m.count("rope.scaling.original_context_length", 128).real("rope.scaling.yarn_log_multiplier", 0.1);
  return b;
}
/// Like DeepSeek-V2: keys and values in one tensor, a softmax, YaRN.
Builder make_deepseek2_merged() {
  Shape shape = deepseek2();
  shape.query_rank = 96, shape.merged_keys = true, shape.kv_heads = shape.heads;
  Builder b(shape);
  b.m.count("expert_shared_count", 2).real("expert_weights_scale", 1.5).text("rope.scaling.type", "yarn").real("rope.scaling.factor", 40);
  b.m.count("rope.scaling.original_context_length", 128).real("rope.scaling.yarn_log_multiplier", 0.0707);
  return b;
}
/// Like DeepSeek-V2-Lite, which llama.cpp recognises by its 27 layers: queries are computed directly from the token. YaRN has no factor for
/// scores.
Builder make_deepseek2_lite() {
  Shape shape = deepseek2();
  shape.layers = 27;
  Builder b(shape);
  b.m.count("expert_shared_count", 2).text("rope.scaling.type", "yarn").real("rope.scaling.factor", 40);
  b.m.count("rope.scaling.original_context_length", 128);
  return b;
}

template <std::int64_t layers, bool own_output>
Builder make_glm4moe_nextn() {
  Shape shape = glm4moe();
  shape.qk_norm = Shape::kHead, shape.faint = true, shape.nextn_layers = layers, shape.nextn_output = own_output;
  Builder b(shape);
  b.m.count("expert_shared_count", 1).boolean("expert_weights_norm", true).real("expert_weights_scale", 1.5).count("expert_gating_func", 2);
  return b;
}
/// `merged`: keys and values in one tensor, and queries directly from the token. `sparse`: the MTP layer has an index, which is not used.
template <std::int64_t layers, bool merged, bool sparse = false>
Builder make_deepseek2_nextn() {
  Shape shape = deepseek2();
  shape.choice_bias = shape.faint = true, shape.nextn_layers = layers;
  if (sparse) shape.architecture = "glm-dsa", shape.picked = 8;
  if (merged)
    shape.merged_keys = true, shape.kv_heads = shape.heads;
  else
    shape.query_rank = 96;
  Builder b(shape);
  b.m.count("expert_shared_count", 2).boolean("expert_weights_norm", true).real("expert_weights_scale", 2.5).count("expert_gating_func", 2);
  b.m.count("expert_group_count", 3).count("expert_group_used_count", 2);
  return b;
}

constexpr Variant kRows[] = {
    {"llama", make_llama},
    {"llama-bias", make_llama_bias},
    {"llama-scale", make_llama_scale},
    {"llama-heads-100", make_llama_heads<100, 16, 4>},
    {"llama-heads-120", make_llama_heads<120, 8, 1>},
    {"mixtral", make_mixtral},
    {"mixtral-single", make_mixtral_single},
    {"qwen", make_qwen},
    {"qwen2", make_qwen2},
    {"qwen2-bias", make_qwen2_bias},
    {"qwen3", make_qwen3},
    {"qwen3-heads-24", make_qwen3_heads},
    {"falcon-7b", make_falcon_7b},
    {"falcon-40b", make_falcon_40b},
    {"qwen2moe", make_qwen2moe},
    {"qwen3moe", make_qwen3moe},
    {"qwen3moe-scale", make_qwen3moe_scale},
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
    {"gptneox-heads-8", make_gptneox_heads},
    {"deepseek2", make_deepseek2},
    {"deepseek2-merged", make_deepseek2_merged},
    {"deepseek2-lite", make_deepseek2_lite},
    {"command-r", make_command_r},
    {"command-r-plus", make_command_r_plus},
    {"gpt-oss", make_gpt_oss},
    {"glm4moe", make_glm4moe},
};

/// Variants with an MTP layer; "without": the same model without it.
constexpr Variant kNextnRows[] = {
    {"glm4moe-nextn", make_glm4moe_nextn<1, false>},
    {"glm4moe-nextn-own", make_glm4moe_nextn<2, true>},
    {"glm4moe-without", make_glm4moe_nextn<0, false>},
    {"deepseek2-nextn", make_deepseek2_nextn<1, false>},
    {"deepseek2-without", make_deepseek2_nextn<0, false>},
    {"deepseek2merged-nextn", make_deepseek2_nextn<1, true>},
    {"deepseek2merged-without", make_deepseek2_nextn<0, true>},
    {"glmdsa-nextn", make_deepseek2_nextn<1, false, true>},
    {"glmdsa-without", make_deepseek2_nextn<0, false, true>},
};

}  // namespace

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const Variant& row : kRows) names.emplace_back(row.name);
  for (const Variant& row : variants_of_2025()) names.emplace_back(row.name);
  for (const Variant& row : variants_of_2026()) names.emplace_back(row.name);
  for (const Variant& row : variants_with_states()) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> nextn_variant_names() {
  return {"glm4moe-nextn",   "glm4moe-nextn-own", "deepseek2-nextn", "deepseek2merged-nextn", "glmdsa-nextn",
          "qwen3next-nextn", "qwen35-nextn",      "qwen35moe-nextn", "qwen4exp-nextn"};
}

void write_tiny_model(const std::string& variant, TensorType type, const std::string& path, bool widened) {
  wide = variant.ends_with("-wide");
  const std::string name = variant.substr(0, variant.rfind("-wide"));
  for (const std::span<const Variant> rows : {std::span<const Variant>(kRows), variants_of_2025(), variants_of_2026(),
                                              variants_with_states(), std::span<const Variant>(kNextnRows), nextn_variants_with_states()}) {
    for (const Variant& row : rows) {
      if (name == row.name) return (row.write ? row.write() : row.make().m).write(type, widened, path);
    }
  }
  throw std::out_of_range("no variant " + variant);
}

std::vector<std::int32_t> tiny_prompt() {
  std::vector<std::int32_t> ids{1};
  for (std::int32_t i = 0; i < 23; ++i) ids.push_back(260 + i * 37 % 250);
  return ids;
}

}  // namespace yamata::families_test
