#include "src/model/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/model/hyperparameters.hpp"
#include "src/model/metadata_reader.hpp"
#include "src/model/state_reader.hpp"

namespace yamata {
namespace {

using enum TensorRole;

/// Reads the sliding window, if a file has one. All layers have it except every `pattern`th, unless the file has another number, or a list
/// with a boolean for each layer.
void read_windows(const MetadataReader& reader, Hyperparameters& h, std::int64_t pattern, std::int64_t absent = 0) {
  h.layer.window = reader.count_or_none("attention.sliding_window", 1 << 30, absent);
  const auto listed = reader.flags("attention.sliding_window_pattern");
  h.window_pattern = listed ? 0 : reader.count_or_none("attention.sliding_window_pattern", 4096, pattern);
  if (!listed) return;
  if (std::ssize(*listed) < h.layers) {
    throw ModelError(fmt::format("{}: {}.attention.sliding_window_pattern has {} values for {} layers; convert the model again",
                                 reader.file().name(), h.family->name, listed->size(), h.layers));
  }
  h.windows = *listed;
}

void read_llama(const MetadataReader& reader, Hyperparameters& h) {
  h.layer.window = reader.count_or_none("attention.sliding_window", 1 << 30);
}

/// In Qwen's files, the size is that of gate and up together.
void read_qwen(const MetadataReader&, Hyperparameters& h) { h.ffn /= 2; }

void read_qwen2moe(const MetadataReader& reader, Hyperparameters& h) {
  if (h.layer.shared_ffn == 0) h.layer.shared_ffn = h.ffn;
  if (!reader.has("expert_feed_forward_length"))
    h.layer.expert_ffn = std::max<std::int64_t>(1, h.ffn / std::max<std::int64_t>(1, h.layer.experts_used));
}

void read_qwen3moe(const MetadataReader& reader, Hyperparameters& h) {
  if (!reader.has("expert_feed_forward_length"))
    h.layer.expert_ffn = std::max<std::int64_t>(1, h.ffn / std::max<std::int64_t>(1, h.layer.experts_used));
}

/// Sections of RoPE have different positions in images, and equal ones in texts.
void read_sections(const MetadataReader& reader, Hyperparameters&) { reader.require({"rope.dimension_sections"}); }

void read_qwen3vlmoe(const MetadataReader& reader, Hyperparameters& h) {
  read_sections(reader, h);
  read_qwen3moe(reader, h);
}

/// The embedding is scaled by the square root of its width. The largest model of a generation, with `largest` layers, has its own scale of
/// attention scores.
void read_gemma(Hyperparameters& h, std::int64_t largest) {
  h.embedding_scale = std::sqrt(static_cast<float>(h.dim));
  if (h.layers == largest) h.layer.attention_scale = 1.0f / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, h.dim / h.heads)));
}

void read_gemma2(const MetadataReader& reader, Hyperparameters& h) {
  read_gemma(h, 46);
  read_windows(reader, h, 2, 4096);
  h.window_rope_base = reader.real("rope.freq_base_swa", h.layer.rope_base);
  h.layer.attention_softcap = reader.real_or_none("attn_logit_softcapping", 50);
  h.logit_softcap = reader.real_or_none("final_logit_softcapping", 30);
}

/// Layers with a window have a RoPE base of their own, and no RoPE scaling.
void read_gemma3(const MetadataReader& reader, Hyperparameters& h) {
  read_gemma(h, 62);
  read_windows(reader, h, 6);
  h.window_rope_base = reader.real("rope.freq_base_swa", 10000);
  if (h.rope.attention_factor != 1)
    throw ModelError(fmt::format("{}: gemma3.rope.scaling.attn_factor is not supported", reader.file().name()));
  h.window_rope_scaled = false;
  h.logit_softcap = reader.real_or_none("final_logit_softcapping");
}

void read_olmo2(const MetadataReader& reader, Hyperparameters& h) {
  read_windows(reader, h, 4);
  h.window_rope_base = reader.real("rope.freq_base_swa", h.layer.rope_base);
  h.window_rope_scaled = false;
}

void read_granite(const MetadataReader& reader, Hyperparameters& h) {
  h.logit_scale = 1.0f / reader.real("logit_scale");
  h.embedding_scale = reader.real("embedding_scale", 1);
  h.layer.residual_scale = reader.real("residual_scale", 1);
  h.layer.attention_scale = reader.real_or_none("attention.scale");
  if (!reader.boolean("rope.scaling.finetuned", true)) h.layer.rope = RopeKind::kNone;
}

void read_gptneox(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"use_parallel_residual"});
  h.layer.parallel = reader.boolean("use_parallel_residual", true);
}

void read_gpt_oss(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"attention.sliding_window", "expert_feed_forward_length"});
  read_windows(reader, h, 2);
  h.window_rope_base = reader.real("rope.freq_base_swa", h.layer.rope_base);
}

/// Files made for images have other RoPE pairs, and sections of them, which have equal positions in texts.
void read_glm4(const MetadataReader& reader, Hyperparameters& h) {
  const auto sections = reader.flags("rope.dimension_sections");
  if (sections && std::ranges::count(*sections, true) > 0) h.layer.rope = RopeKind::kNeox;
}

/// Heads are normalized if the file has weights for it.
void read_glm4moe(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_count"});
  if (reader.file().find("blk.0.attn_q_norm.weight")) h.layer.qk_norm = QkNorm::kHead;
}

/// Factors of queries that grow with the position, by lengths of the context for which the model was trained at first.
void read_query_scale(const MetadataReader& reader, Hyperparameters& h) {
  h.layer.query_scale = reader.real_or_none("attention.temperature_scale");
  h.query_scale_length = reader.count("attention.temperature_length", 1 << 30, h.rope.original_context);
}

/// With YaRN, a multiplier cancels the growth of rotated values.
void read_mistral3(const MetadataReader& reader, Hyperparameters& h) {
  read_query_scale(reader, h);
  const float grown = h.rope.kind == RopeScaling::Kind::kYarn ? 0.1f * std::log(h.rope.factor) : 0.0f;
  h.rope.attention_factor /= 1.0f + reader.real_or_none("rope.scaling.yarn_log_multiplier") * grown;
}

/// The large model's layers have windows, except every fourth, which has no RoPE.
void read_exaone4(const MetadataReader& reader, Hyperparameters& h) {
  read_windows(reader, h, 4, h.layers == 64 ? 4096 : 0);
  h.only_windows_rotate = true;
  h.window_rope_base = reader.real("rope.freq_base_swa", h.layer.rope_base);
  if (h.layer.window == 0) h.window_pattern = 0, h.windows.clear();
}

void read_smollm3(const MetadataReader&, Hyperparameters& h) { h.unrotated_period = 4; }

void read_ernie4_5_moe(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"expert_count", "expert_feed_forward_length"});
  h.expert_period = reader.count("interleave_moe_layer_step", 4096);
}

void read_hunyuan_moe(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"expert_count", "expert_feed_forward_length"});
  if (!reader.has("expert_shared_feed_forward_length")) h.layer.shared_ffn = h.ffn;
}

/// No tensor is optional.
void read_minimax_m2(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"expert_count", "expert_feed_forward_length"});
  reader.file().tensor("output.weight");
  for (std::int64_t layer = 0; layer < h.layers; ++layer) reader.file().tensor(fmt::format("blk.{}.exp_probs_b.bias", layer));
}

/// Chunks instead of windows in three of four layers, the only ones with RoPE; a window of 0 says that all tokens are seen everywhere.
void read_llama4(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"expert_feed_forward_length"});
  if (reader.count("expert_count", kMaxExperts) == 128) h.layer.qk_norm = QkNorm::kNone;
  h.expert_period = reader.count("interleave_moe_layer_step", 4096);
  h.layer.router = RouterKind::kSigmoidOfChosen;
  h.layer.shared_ffn = h.layer.expert_ffn;
  read_windows(reader, h, 4, 8192);
  h.window_rope_base = reader.real("rope.freq_base_swa", h.layer.rope_base);
  h.chunked = h.only_windows_rotate = true;
  if (h.layer.window > 0) h.layer.query_scale = 0.1f;
  h.query_scale_length = 8192, h.query_scale_offset = 1;
}

/// Files older than expert_gating_func use DeepSeek-V2's softmax, except GLM 4.7 Flash. With YaRN, a factor in the file scales attention
/// scores instead of the rotated values.
void read_deepseek2(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"attention.kv_lora_rank", "expert_feed_forward_length", "expert_shared_count"});
  read_query_scale(reader, h);
  const bool is_glm = (h.layers == 47 || h.layers == 48) && h.vocabulary == 154880;
  if (is_glm && reader.count_or_none("expert_gating_func", 3) == 0) h.layer.router = RouterKind::kSigmoid;
  const float grown = h.rope.kind == RopeScaling::Kind::kYarn ? std::log(h.rope.factor) : 0.0f;
  const float rotated = 1.0f + 0.1f * grown, multiplier = reader.real_or_none("rope.scaling.yarn_log_multiplier");
  float scale = h.rope.attention_factor * (multiplier != 0 ? 1.0f + multiplier * grown : rotated);
  if (multiplier != 0) h.rope.attention_factor /= rotated;
  h.layer.attention_scale = scale * scale / std::sqrt(static_cast<float>(h.query_dim()));
}

/// Some converters leave the publisher's scale out.
void read_mistral4(const MetadataReader& reader, Hyperparameters& h) {
  read_deepseek2(reader, h);
  if (!reader.has("attention.temperature_scale")) h.layer.query_scale = 0.1f;
}

void read_states_and_experts(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"expert_count", "expert_used_count"});
  read_qwen2moe(reader, h);
  read_states(reader, h);
}

void read_command_r(const MetadataReader& reader, Hyperparameters& h) {
  if (reader.file().find("blk.0.attn_q_norm.weight")) h.layer.qk_norm = QkNorm::kEachHead;  // Command R+
  h.logit_scale = reader.real("logit_scale");
}

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
    {"falcon", gpt(true), common_tensors(), nullptr, kFalconNames},
    {"gptneox", gpt(true), common_tensors(), read_gptneox},
    {"starcoder2", gpt(false), common_tensors()},
    {"gemma2", gemma(QkNorm::kNone), common_tensors(), read_gemma2},
    {"gemma3", gemma(QkNorm::kHead), common_tensors(), read_gemma3},
    {"phi3", neox(), common_tensors()},
    {"olmo2", olmo2(), common_tensors(), read_olmo2},
    {"granite", LayerSpec{}, common_tensors(), read_granite},
    {"glm4", sandwich(RopeKind::kInterleaved), common_tensors(), read_glm4},
    {"glm4moe", glm4moe(), common_tensors(), read_glm4moe, kNormAfterAttention},
    {"command-r", command_r(), common_tensors(), read_command_r, kOneNorm},
    {"deepseek2", deepseek2(), common_tensors(), read_deepseek2},
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
