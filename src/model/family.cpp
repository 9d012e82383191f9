#include "src/model/family.hpp"

#include <fmt/format.h>

#include "node/error.hpp"
#include "src/gguf/gguf.hpp"
#include "src/model/family_readers.hpp"
#include "src/model/gemma4_reader.hpp"
#include "src/model/sparse_reader.hpp"
#include "src/model/state_reader.hpp"

namespace yamata {
namespace {

using enum TensorRole;

constexpr LayerSpec neox() { return {.rope = RopeKind::kNeox}; }

/// LayerNorm, a feed-forward network without a gate, GELU.
constexpr LayerSpec gpt(bool parallel) {
  LayerSpec spec = neox();
  spec.attention_norm = spec.ffn_norm = NormKind::kLayer;
  spec.activation = Activation::kGeluTanh;
  spec.gated = false;
  spec.parallel = parallel;
  return spec;
}

constexpr LayerSpec qwen3() {
  LayerSpec spec = neox();
  spec.qk_norm = QkNorm::kHead;
  return spec;
}

/// Gated delta rule, or attention with an output gate; with experts, a gated shared one.
constexpr LayerSpec qwen35() {
  LayerSpec spec = qwen3();
  spec.output_gate = spec.shared_gate = true;
  return spec;
}

constexpr LayerSpec qwen3next() {
  LayerSpec spec = qwen35();
  spec.joint_gates = true;
  return spec;
}

/// Hyper-connections instead of norms.
constexpr LayerSpec qwen4exp() {
  LayerSpec spec = qwen35();
  spec.attention_norm = spec.ffn_norm = NormKind::kNone;
  spec.sigmoid_gate = true;
  return spec;
}

constexpr LayerSpec qwen2moe() {
  LayerSpec spec = neox();
  spec.normalize_experts = false;
  spec.shared_gate = true;
  return spec;
}

/// Norms before and after attention and feed-forward.
constexpr LayerSpec sandwich(RopeKind rope) {
  LayerSpec spec{.rope = rope};
  spec.attention_post_norm = spec.ffn_post_norm = NormKind::kRms;
  return spec;
}

constexpr LayerSpec gemma(QkNorm qk_norm) {
  LayerSpec spec = sandwich(RopeKind::kNeox);
  spec.qk_norm = qk_norm;
  spec.activation = Activation::kGeluTanh;
  if (qk_norm == QkNorm::kHead) spec.rope_base = 1e6f;  // Gemma 3
  return spec;
}

/// Norms only after attention and feed-forward.
constexpr LayerSpec olmo2() {
  LayerSpec spec = sandwich(RopeKind::kNeox);
  spec.attention_norm = spec.ffn_norm = NormKind::kNone;
  spec.qk_norm = QkNorm::kToken;
  return spec;
}

constexpr LayerSpec gpt_oss() {
  LayerSpec spec = neox();
  spec.sinks = true;
  spec.activation = Activation::kClampedSilu;
  spec.router = RouterKind::kSoftmaxOfChosen;
  spec.normalize_experts = false;
  return spec;
}

constexpr LayerSpec glm4moe() {
  LayerSpec spec = neox();
  spec.router = RouterKind::kSigmoid;
  spec.normalize_experts = false;
  return spec;
}

/// LayerNorm, and attention parallel to a gated feed-forward network.
constexpr LayerSpec command_r() {
  LayerSpec spec;
  spec.attention_norm = spec.ffn_norm = NormKind::kLayer;
  spec.parallel = true;
  return spec;
}

constexpr LayerSpec deepseek2() {
  LayerSpec spec;
  spec.normalize_experts = false;
  return spec;
}

/// Norms after attention and feed-forward, and of heads.
constexpr LayerSpec exaone4() {
  LayerSpec spec = olmo2();
  spec.qk_norm = QkNorm::kHead;
  return spec;
}

constexpr LayerSpec hunyuan() {
  LayerSpec spec = qwen3();
  spec.qk_norm_last = true;
  return spec;
}

constexpr LayerSpec minimax_m2() {
  LayerSpec spec = neox();
  spec.qk_norm = QkNorm::kToken;
  spec.router = RouterKind::kSigmoid;
  return spec;
}

constexpr LayerSpec llama4() {
  LayerSpec spec;
  spec.qk_norm = QkNorm::kUnit;
  spec.qk_norm_last = true;
  spec.normalize_experts = false;
  spec.weigh_inputs = true;
  return spec;
}

/// One block a layer: a scan, attention without RoPE, or a feed-forward without a gate.
constexpr LayerSpec nemotron_h() {
  LayerSpec spec{.rope = RopeKind::kNone};
  spec.alone = true;
  spec.activation = Activation::kSquaredRelu;
  spec.gated = spec.normalize_experts = false;
  return spec;
}

/// One norm that attention and feed-forward share, or two.
constexpr Renamed kFalconNames[] = {
    {kAttentionNorm, "attn_norm_2.weight", "attn_norm.weight"},
    {kAttentionNormBias, "attn_norm_2.bias", "attn_norm.bias"},
    {kFfnNorm, "attn_norm.weight"},
    {kFfnNormBias, "attn_norm.bias"},
};

constexpr Renamed kOneNorm[] = {{kFfnNorm, "attn_norm.weight"}, {kFfnNormBias, "attn_norm.bias"}};

/// The norm between attention and feed-forward, under its other name.
constexpr Renamed kNormAfterAttention[] = {{kFfnNorm, "post_attention_norm.weight"}};

/// The norm before the output, under a name of the embedding.
constexpr Renamed kLfm2Names[] = {{kOutputNorm, "token_embd_norm.weight"}};

const Family kFamilies[] = {
    {"llama", LayerSpec{}, common_tensors(), read_llama},
    {"qwen", neox(), common_tensors(), read_qwen},
    {"qwen2", neox(), common_tensors()},
    {"qwen2moe", qwen2moe(), common_tensors(), read_qwen2moe},
    {"qwen3", qwen3(), common_tensors()},
    {"qwen3moe", qwen3(), common_tensors(), read_qwen3moe},
    {"qwen3next", qwen3next(), common_tensors(), read_states_and_experts, kNormAfterAttention},
    {"qwen35", qwen35(), common_tensors(), read_states, kNormAfterAttention},
    {"qwen35moe", qwen35(), common_tensors(), read_states_and_experts, kNormAfterAttention},
    {"qwen4exp", qwen4exp(), common_tensors(), read_qwen4exp},
    {"falcon", gpt(true), common_tensors(), nullptr, kFalconNames},
    {"gptneox", gpt(true), common_tensors(), read_gptneox},
    {"starcoder2", gpt(false), common_tensors()},
    {"gemma2", gemma(QkNorm::kNone), common_tensors(), read_gemma2},
    {"gemma3", gemma(QkNorm::kHead), common_tensors(), read_gemma3},
    {"gemma4", gemma4(), common_tensors(), read_gemma4, {}, true},
    {"phi3", neox(), common_tensors()},
    {"olmo2", olmo2(), common_tensors(), read_olmo2},
    {"granite", LayerSpec{}, common_tensors(), read_granite},
    {"glm4", sandwich(RopeKind::kInterleaved), common_tensors(), read_glm4},
    {"glm4moe", glm4moe(), common_tensors(), read_glm4moe, kNormAfterAttention},
    {"command-r", command_r(), common_tensors(), read_command_r, kOneNorm},
    {"deepseek2", deepseek2(), common_tensors(), read_deepseek2},
    {"deepseek32", deepseek2(), common_tensors(), read_deepseek32},
    {"glm-dsa", deepseek2(), common_tensors(), read_glm_dsa},
    {"gpt-oss", gpt_oss(), common_tensors(), read_gpt_oss, kNormAfterAttention},
    {"smollm3", LayerSpec{}, common_tensors(), read_smollm3},
    {"seed_oss", neox(), common_tensors(), nullptr, kNormAfterAttention},
    {"exaone4", exaone4(), common_tensors(), read_exaone4},
    {"hunyuan-dense", hunyuan(), common_tensors()},
    {"ernie4_5", LayerSpec{}, common_tensors()},
    {"mistral3", LayerSpec{}, common_tensors(), read_mistral3},
    {"minimax-m2", minimax_m2(), common_tensors(), read_minimax_m2},
    {"hunyuan-moe", hunyuan(), common_tensors(), read_hunyuan_moe},
    {"ernie4_5-moe", LayerSpec{}, common_tensors(), read_ernie4_5_moe},
    {"llama4", llama4(), common_tensors(), read_llama4},
    {"mistral4", deepseek2(), common_tensors(), read_mistral4},
    {"qwen2vl", neox(), common_tensors(), read_sections},
    {"qwen3vl", qwen3(), common_tensors(), read_sections},
    {"qwen3vlmoe", qwen3(), common_tensors(), read_qwen3vlmoe},
    {"lfm2", qwen3(), common_tensors(), read_lfm2, kLfm2Names, false, true},
    {"lfm2moe", qwen3(), common_tensors(), read_lfm2moe, kLfm2Names, false, true},
    {"granitehybrid", LayerSpec{}, common_tensors(), read_granitehybrid, {}, false, true},
    {"nemotron_h", nemotron_h(), common_tensors(), read_nemotron_h, kOneNorm, false, true},
    {"nemotron_h_moe", nemotron_h(), common_tensors(), read_nemotron_h, kOneNorm, false, true},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family& find_family(const gguf::File& file) {
  const auto name = file.string("general.architecture");
  if (!name) throw ModelError(fmt::format("{}: no general.architecture in its metadata; is it a language model?", file.name()));
  if (*name == "eagle3")
    throw ModelError(fmt::format("{} holds draft heads (EAGLE-3), not a model; it is for --heads of 'yamata run'", file.name()));
  std::string supported;
  for (const Family& family : kFamilies) {
    if (*name == family.name) return family;
    supported += (supported.empty() ? "" : ", ") + std::string(family.name);
  }
  throw ModelError(fmt::format("{}: architecture '{}' is not supported; supported: {}", file.name(), *name, supported));
}

}  // namespace yamata
