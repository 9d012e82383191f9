#include "src/model/family_readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/model/hyperparameters.hpp"
#include "src/model/metadata_reader.hpp"
#include "src/model/state_reader.hpp"

namespace yamata {
namespace {

/// Reads the sliding window, if a file has one. All layers have it except every `pattern`th, unless the file has another number, or a list
/// with a boolean for each layer.
void read_windows(const MetadataReader& reader, Hyperparameters& h, std::int64_t pattern, std::int64_t absent = 0) {
  h.layer.window = reader.count_or_none("attention.sliding_window", 1 << 30, absent);
  const auto listed = reader.layer_flags("attention.sliding_window_pattern", h.layers);
  h.window_pattern = listed ? 0 : reader.count_or_none("attention.sliding_window_pattern", 4096, pattern);
  if (listed) h.windows = *listed;
}

/// The embedding is scaled by the square root of its width. The largest model of a generation, with `largest` layers, has its own scale of
/// attention scores.
void read_gemma(Hyperparameters& h, std::int64_t largest) {
  h.embedding_scale = std::sqrt(static_cast<float>(h.dim));
  if (h.layers == largest) h.layer.attention_scale = 1.0f / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, h.dim / h.heads)));
}

/// Factors of queries that grow with the position, by lengths of the context for which the model was trained at first.
void read_query_scale(const MetadataReader& reader, Hyperparameters& h) {
  h.layer.query_scale = reader.real_or_none("attention.temperature_scale");
  h.query_scale_length = reader.count("attention.temperature_length", 1 << 30, h.rope.original_context);
}

}  // namespace

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
  reader.require({"logit_scale"});
  read_granite_scales(reader, h);
}

void read_granite_scales(const MetadataReader& reader, Hyperparameters& h) {
  h.logit_scale = 1.0f / reader.real("logit_scale", 1);
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

/// The routers' biases and the output's weights may not be left out.
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

/// With YaRN, a factor in the file scales attention scores instead of the rotated values.
void read_latent_scores(const MetadataReader& reader, Hyperparameters& h) {
  const float grown = h.rope.kind == RopeScaling::Kind::kYarn ? std::log(h.rope.factor) : 0.0f;
  const float rotated = 1.0f + 0.1f * grown, multiplier = reader.real_or_none("rope.scaling.yarn_log_multiplier");
  float scale = h.rope.attention_factor * (multiplier != 0 ? 1.0f + multiplier * grown : rotated);
  if (multiplier != 0) h.rope.attention_factor /= rotated;
  h.layer.attention_scale = scale * scale / std::sqrt(static_cast<float>(h.query_dim()));
}

/// Files older than expert_gating_func use DeepSeek-V2's softmax, except GLM 4.7 Flash.
void read_deepseek2(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"attention.kv_lora_rank", "expert_feed_forward_length", "expert_shared_count"});
  read_query_scale(reader, h);
  const bool is_glm = (h.layers == 47 || h.layers == 48) && h.vocabulary == 154880;
  if (is_glm && reader.count_or_none("expert_gating_func", 3) == 0) h.layer.router = RouterKind::kSigmoid;
  read_latent_scores(reader, h);
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

}  // namespace yamata
