// Families whose layers have states.
#include "tests/families/tiny_builder.hpp"

namespace yamata::families_test {
namespace {

/// Gated delta rule: six value heads share two key heads.
Shape qwen35(const char* architecture) {
  Shape shape{.architecture = architecture, .rotary_dim = 16, .norms = {"attn_norm", "post_attention_norm"}};
  shape.qk_norm = Shape::kHead, shape.state_heads = 6;
  return shape;
}
Shape with_shared_expert(Shape shape) {
  shape.shared_score = true, shape.experts = kExperts, shape.shared_ffn = 160;
  return shape;
}
Shape qwen3next() {
  Shape shape = with_shared_expert(qwen35("qwen3next"));
  shape.joint_gates = true;
  return shape;
}
Builder make_qwen3next() { return Builder(qwen3next()); }
Builder with_sections(Builder b) {
  b.m.counts("rope.dimension_sections", {3, 3, 2, 0});
  return b;
}
Builder make_qwen35() {
  Shape shape = qwen35("qwen35");
  shape.layers = 5;
  return with_sections(Builder(shape));
}
Builder make_qwen35moe() { return with_sections(Builder(with_shared_expert(qwen35("qwen35moe")))); }

/// Hyper-connections of three streams.
Builder make_qwen4exp() {
  Shape shape = with_shared_expert(qwen35("qwen4exp"));
  shape.layers = 5, shape.norms = {}, shape.streams = 3;
  return with_sections(Builder(shape));
}

/// With sparse attention in the last layer, the only one with attention: so what llama.cpp picks for one token changes no other token.
Builder make_qwen4exp_blocks() {
  Shape shape = with_shared_expert(qwen35("qwen4exp"));
  shape.norms = {}, shape.streams = 3, shape.index_block = 4, shape.picked = 12;
  return with_sections(Builder(shape));
}

/// With n-gram embeddings in a layer that two others are before.
Builder make_qwen4exp_ngrams() {
  Shape shape = with_shared_expert(qwen35("qwen4exp"));
  shape.norms = {}, shape.streams = 3, shape.ngram_layer = 2;
  return with_sections(Builder(shape));
}

/// With MTP layers, or, with 0, without.
template <std::int64_t layers>
Shape predicting(Shape shape) {
  shape.faint = true, shape.nextn_layers = layers;
  return shape;
}
template <std::int64_t layers>
Builder make_qwen3next_nextn() {
  return Builder(predicting<layers>(qwen3next()));
}
template <std::int64_t layers>
Builder make_qwen35_nextn() {
  return with_sections(Builder(predicting<layers>(qwen35("qwen35"))));
}
template <std::int64_t layers>
Builder make_qwen35moe_nextn() {
  return with_sections(Builder(predicting<layers>(with_shared_expert(qwen35("qwen35moe")))));
}

template <std::int64_t layers>
Builder make_qwen4exp_nextn() {
  Shape shape = predicting<layers>(with_shared_expert(qwen35("qwen4exp")));
  shape.norms = {}, shape.streams = 3, shape.index_block = 4, shape.picked = 12;
  return with_sections(Builder(shape));
}

/// Short convolutions.
Shape lfm2(const char* architecture) {
  Shape shape{.architecture = architecture, .output_norm = "token_embd_norm", .layers = 5, .taps = 3};
  shape.qk_norm = Shape::kHead;
  return shape;
}
Builder make_lfm2() { return Builder(lfm2("lfm2")); }
/// With longer convolutions.
Builder make_lfm2moe() {
  Shape shape = lfm2("lfm2moe");
  shape.choice_bias = true, shape.experts = kExperts, shape.dense_layers = 2, shape.taps = 4;
  Builder b(shape);
  b.m.count("expert_gating_func", 2);
  return b;
}

/// Scans (Mamba-2) whose heads share all keys.
Shape granitehybrid() {
  Shape shape{.architecture = "granitehybrid", .layers = 5};
  shape.layout = "MM*MM", shape.state_heads = 12, shape.state_key_heads = 1;
  return shape;
}
Builder with_scales(Builder b) {
  b.m.real("logit_scale", 0.5).real("embedding_scale", 12).real("residual_scale", 0.22).real("attention.scale", 0.125);
  return b;
}
Builder make_granitehybrid() {
  Builder b = with_scales(Builder(granitehybrid()));
  b.m.boolean("rope.scaling.finetuned", false);
  return b;
}
/// With RoPE, and experts as wide as the dense feed-forward.
Builder make_granitehybrid_moe() {
  Shape shape = granitehybrid();
  shape.experts = kExperts, shape.expert_ffn = shape.ffn, shape.shared_ffn = 160;
  return with_scales(Builder(shape));
}

/// Scans whose heads share keys in groups; one block a layer.
Shape nemotron_h(const char* architecture) {
  Shape shape{.architecture = architecture, .layers = 7, .norms = {"attn_norm"}};
  shape.layout = "M-M*-M-", shape.alone = true, shape.feed_forward = Shape::kPlain;
  shape.state_heads = 12, shape.state_key_heads = 3;
  return shape;
}
Builder with_epsilons(Builder b) {
  b.m.real("attention.layer_norm_epsilon", 1e-5);
  return b;
}
Builder make_nemotron_h() { return with_epsilons(Builder(nemotron_h("nemotron_h"))); }
/// With experts of latent vectors of so many values; 0: of the residual stream.
template <std::int64_t expert_dim>
Builder make_nemotron_h_moe() {
  Shape shape = nemotron_h("nemotron_h_moe");
  shape.choice_bias = true, shape.experts = kExperts, shape.shared_ffn = 160, shape.expert_dim = expert_dim;
  Builder b = with_epsilons(Builder(shape));
  b.m.boolean("expert_weights_norm", true).real("expert_weights_scale", 2.5);
  return b;
}

constexpr Variant kVariantsWithStates[] = {
    {"qwen3next", make_qwen3next},
    {"qwen35", make_qwen35},
    {"qwen35moe", make_qwen35moe},
    {"qwen4exp", make_qwen4exp},
    {"qwen4exp-blocks", make_qwen4exp_blocks},
    {"qwen4exp-ngrams", make_qwen4exp_ngrams},
    {"lfm2", make_lfm2},
    {"lfm2moe", make_lfm2moe},
    {"granitehybrid", make_granitehybrid},
    {"granitehybrid-moe", make_granitehybrid_moe},
    {"nemotron_h", make_nemotron_h},
    {"nemotron_h_moe", make_nemotron_h_moe<0>},
    {"nemotron_h_moe-latent", make_nemotron_h_moe<64>},
};

constexpr Variant kNextnVariants[] = {
    {"qwen3next-nextn", make_qwen3next_nextn<1>}, {"qwen3next-without", make_qwen3next_nextn<0>},
    {"qwen35-nextn", make_qwen35_nextn<1>},       {"qwen35-without", make_qwen35_nextn<0>},
    {"qwen35moe-nextn", make_qwen35moe_nextn<1>}, {"qwen35moe-without", make_qwen35moe_nextn<0>},
    {"qwen4exp-nextn", make_qwen4exp_nextn<1>},   {"qwen4exp-without", make_qwen4exp_nextn<0>},
};

}  // namespace

std::span<const Variant> variants_with_states() { return kVariantsWithStates; }
std::span<const Variant> nextn_variants_with_states() { return kNextnVariants; }

}  // namespace yamata::families_test
