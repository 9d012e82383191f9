// The tensors of all families whose files have the usual names.
#include "src/model/family.hpp"

namespace yamata {
namespace {

using enum TensorRole;
using enum Holder;
using enum Extent;

bool has_attention_norm(const LayerSpec& spec) { return spec.attention_norm != NormKind::kNone && spec.mixer != Mixer::kNone; }
bool has_ffn_norm(const LayerSpec& spec) { return spec.ffn_norm != NormKind::kNone && spec.feeds; }
bool has_attention_norm_bias(const LayerSpec& spec) { return spec.attention_norm == NormKind::kLayer; }
bool has_ffn_norm_bias(const LayerSpec& spec) { return spec.ffn_norm == NormKind::kLayer; }
bool has_attention_post_norm(const LayerSpec& spec) { return spec.attention_post_norm != NormKind::kNone; }
bool has_ffn_post_norm(const LayerSpec& spec) { return spec.ffn_post_norm != NormKind::kNone; }
bool attends(const LayerSpec& spec) { return spec.attends(); }
bool norms_heads(const LayerSpec& spec) { return attends(spec) && spec.qk_norm == QkNorm::kHead; }
bool norms_own_keys(const LayerSpec& spec) { return norms_heads(spec) && !spec.reads_cache; }
/// All heads have weights together: of one norm of them all, or of a norm each.
bool norms_tokens(const LayerSpec& spec) { return spec.qk_norm == QkNorm::kToken || spec.qk_norm == QkNorm::kEachHead; }
bool is_latent(const LayerSpec& spec) { return spec.latent_rank > 0; }
bool has_index(const LayerSpec& spec) { return spec.index_heads > 0 && spec.index_block == 0; }
bool has_block_index(const LayerSpec& spec) { return spec.index_heads > 0 && spec.index_block > 0; }
bool has_own_keys(const LayerSpec& spec) { return attends(spec) && spec.latent_rank == 0 && !spec.reads_cache; }
bool has_own_values(const LayerSpec& spec) { return has_own_keys(spec) && !spec.values_from_keys; }
bool has_query_rank(const LayerSpec& spec) { return spec.query_rank > 0; }
bool has_direct_queries(const LayerSpec& spec) { return attends(spec) && spec.query_rank == 0 && !spec.output_gate; }
bool attends_without_gates(const LayerSpec& spec) { return attends(spec) && !spec.output_gate; }
bool has_key_bias(const LayerSpec& spec) { return attends_without_gates(spec) && !spec.reads_cache; }
bool has_value_bias(const LayerSpec& spec) { return has_key_bias(spec) && !spec.values_from_keys; }
bool has_gated_queries(const LayerSpec& spec) { return spec.output_gate; }
bool has_delta_rule(const LayerSpec& spec) { return spec.mixer == Mixer::kDeltaRule; }
bool has_joint_gates(const LayerSpec& spec) { return has_delta_rule(spec) && spec.joint_gates; }
bool has_separate_gates(const LayerSpec& spec) { return has_delta_rule(spec) && !spec.joint_gates; }
bool has_scan(const LayerSpec& spec) { return spec.mixer == Mixer::kScan; }
bool has_convolution(const LayerSpec& spec) { return spec.mixer == Mixer::kConvolution; }
bool has_sinks(const LayerSpec& spec) { return spec.sinks; }
bool is_dense(const LayerSpec& spec) { return spec.has_dense(); }
bool is_gated(const LayerSpec& spec) { return spec.has_dense() && spec.gated; }
bool has_experts(const LayerSpec& spec) { return spec.experts > 0; }
bool has_expert_gates(const LayerSpec& spec) { return spec.experts > 0 && spec.gated; }
bool has_latent_experts(const LayerSpec& spec) { return spec.experts > 0 && spec.expert_dim > 0; }
bool has_shared(const LayerSpec& spec) { return spec.experts > 0 && spec.shared_ffn > 0; }
bool has_gate_of_shared(const LayerSpec& spec) { return has_shared(spec) && spec.gated; }
bool has_both(const LayerSpec& spec) { return spec.experts > 0 && spec.dense_beside; }
bool has_layer_inputs(const LayerSpec& spec) { return spec.input_dim > 0; }
bool scales_output(const LayerSpec& spec) { return spec.scales_output; }
bool has_streams(const LayerSpec& spec) { return spec.streams > 0; }
bool has_ngrams(const LayerSpec& spec) { return spec.ngram_dim > 0; }
bool reads_ngrams(const LayerSpec& spec) { return spec.reads_ngrams; }
bool has_one_stream(const LayerSpec& spec) { return spec.streams == 0; }
bool mixes_streams(const LayerSpec& spec) { return has_streams(spec) && spec.mixer != Mixer::kNone; }
bool feeds_streams(const LayerSpec& spec) { return has_streams(spec) && spec.feeds; }
bool has_shared_gate(const LayerSpec& spec) { return has_shared(spec) && spec.shared_gate; }

constexpr TensorRow vector(TensorRole role, const char* name, Extent cols, bool (*present)(const LayerSpec&)) {
  return {.role = role, .name = name, .holder = kLayer, .rows = kOne, .cols = cols, .present = present};
}
/// A vector that the layer has if the file has it.
constexpr TensorRow bias(TensorRole role, const char* name, Extent cols, bool (*present)(const LayerSpec&) = nullptr,
                         Fusion fusion = Fusion::kNone, const char* fused = nullptr) {
  TensorRow row = vector(role, name, cols, present);
  row.optional = true, row.fusion = fusion, row.fused = fused;
  return row;
}
constexpr TensorRow matrix(TensorRole role, const char* name, Extent rows, Extent cols, bool (*present)(const LayerSpec&) = nullptr,
                           Fusion fusion = Fusion::kNone, const char* fused = nullptr) {
  return {.role = role, .name = name, .holder = kLayer, .rows = rows, .cols = cols, .present = present, .fusion = fusion, .fused = fused};
}
constexpr TensorRow per_expert(TensorRole role, const char* name, const char* single, Extent rows, Extent cols,
                               bool (*present)(const LayerSpec&) = has_experts) {
  TensorRow row = matrix(role, name, rows, cols, present);
  row.copies = Copies::kPerExpert, row.single = single;
  return row;
}
constexpr TensorRow half_expert(TensorRole role, const char* name, const char* single, bool (*present)(const LayerSpec&)) {
  TensorRow row = per_expert(role, name, single, kExpertFfn, kExpertInput, present);
  row.fusion = Fusion::kExpertGateUp, row.fused = "ffn_gate_up_exps.weight";
  return row;
}
constexpr TensorRow per_head(TensorRole role, const char* name, Extent rows, Extent cols) {
  TensorRow row = matrix(role, name, rows, cols, is_latent);
  row.copies = Copies::kPerHead, row.single = "attn_kv_b.weight";
  return row;
}
constexpr TensorRow scanned(TensorRole role, Extent rows) {
  return matrix(role, "ssm_in.weight", rows, kDim, has_scan, Fusion::kScan, "ssm_in.weight");
}
constexpr TensorRow of_first_stage(TensorRole role, const char* name, Extent rows, Extent cols) {
  return {.role = role, .name = name, .holder = kFirstStage, .rows = rows, .cols = cols, .present = has_layer_inputs};
}
constexpr TensorRow of_last_stage(TensorRole role, const char* name, Extent rows, Extent cols) {
  return {.role = role, .name = name, .holder = kLastStage, .rows = rows, .cols = cols, .present = has_streams};
}
constexpr TensorRow expert_bias(TensorRole role, const char* name, Extent cols) {
  TensorRow row = matrix(role, name, kExperts, cols, has_experts);
  row.optional = true;
  return row;
}

constexpr TensorRow kTensors[] = {
    {.role = kEmbedding, .name = "token_embd.weight", .holder = kFirstStage, .rows = kVocabulary, .cols = kDim},
    vector(kAttentionNorm, "attn_norm.weight", kDim, has_attention_norm),
    bias(kAttentionNormBias, "attn_norm.bias", kDim, has_attention_norm_bias),
    matrix(kQ, "attn_q.weight", kQueries, kDim, has_direct_queries, Fusion::kQkv, "attn_qkv.weight"),
    matrix(kQ, "attn_q_b.weight", kQueries, kQueryRank, has_query_rank),
    matrix(kQ, "attn_q.weight", kGatedQueries, kDim, has_gated_queries),
    matrix(kK, "attn_k.weight", kKeys, kDim, has_own_keys, Fusion::kQkv, "attn_qkv.weight"),
    matrix(kV, "attn_v.weight", kKeys, kDim, has_own_values, Fusion::kQkv, "attn_qkv.weight"),
    matrix(kQueryDown, "attn_q_a.weight", kQueryRank, kDim, has_query_rank),
    vector(kQueryDownNorm, "attn_q_a_norm.weight", kQueryRank, has_query_rank),
    matrix(kLatent, "attn_kv_a_mqa.weight", kLatentRank, kDim, is_latent, Fusion::kLatent, "attn_kv_a_mqa.weight"),
    matrix(kLatentRotary, "attn_kv_a_mqa.weight", kRotary, kDim, is_latent, Fusion::kLatent, "attn_kv_a_mqa.weight"),
    vector(kLatentNorm, "attn_kv_a_norm.weight", kLatentRank, is_latent),
    per_head(kKeyUp, "attn_k_b.weight", kLatentRank, kPlain),
    per_head(kValueUp, "attn_v_b.weight", kValueDim, kLatentRank),
    matrix(kIndexQ, "indexer.attn_q_b.weight", kIndexQueries, kQueryRank, has_index),
    matrix(kIndexK, "indexer.attn_k.weight", kIndexDim, kDim, has_index),
    vector(kIndexNorm, "indexer.k_norm.weight", kIndexDim, has_index),
    vector(kIndexNormBias, "indexer.k_norm.bias", kIndexDim, has_index),
    matrix(kIndexWeights, "indexer.proj.weight", kIndexHeads, kDim, has_index),
    matrix(kIndexQ, "indexer.q_proj.weight", kIndexQueries, kDim, has_block_index),
    vector(kIndexQueryNorm, "indexer.q_norm.weight", kIndexDim, has_block_index),
    matrix(kIndexK, "indexer.k_proj.weight", kIndexDim, kDim, has_block_index),
    vector(kIndexNorm, "indexer.k_norm.weight", kIndexDim, has_block_index),
    matrix(kRuleQueries, "attn_qkv.weight", kStateKeys, kDim, has_delta_rule, Fusion::kState, "attn_qkv.weight"),
    matrix(kRuleKeys, "attn_qkv.weight", kStateKeys, kDim, has_delta_rule, Fusion::kState, "attn_qkv.weight"),
    matrix(kRuleValues, "attn_qkv.weight", kStateValues, kDim, has_delta_rule, Fusion::kState, "attn_qkv.weight"),
    matrix(kConvolvedGate, "attn_gate.weight", kStateValues, kDim, has_delta_rule),
    vector(kConvolutionTaps, "ssm_conv1d.weight", kChannelTaps, has_delta_rule),
    matrix(kStateGates, "ssm_ba.weight", kHeadGates, kDim, has_joint_gates),
    matrix(kStrength, "ssm_beta.weight", kStateHeads, kDim, has_separate_gates),
    matrix(kDecay, "ssm_alpha.weight", kStateHeads, kDim, has_separate_gates),
    vector(kDecayRate, "ssm_a", kStateHeads, has_delta_rule),
    vector(kDecayBias, "ssm_dt.bias", kStateHeads, has_delta_rule),
    vector(kStateNorm, "ssm_norm.weight", kStateDim, has_delta_rule),
    matrix(kStateOut, "ssm_out.weight", kDim, kStateValues, has_delta_rule),
    scanned(kConvolvedGate, kStateValues),
    scanned(kRuleValues, kStateValues),
    scanned(kRuleKeys, kStateKeys),
    scanned(kRuleQueries, kStateKeys),
    scanned(kDecay, kStateHeads),
    vector(kConvolutionTaps, "ssm_conv1d.weight", kChannelTaps, has_scan),
    bias(kConvolutionBias, "ssm_conv1d.bias", kChannels, has_scan),
    vector(kDecayRate, "ssm_a", kStateHeads, has_scan),
    vector(kDecayBias, "ssm_dt.bias", kStateHeads, has_scan),
    vector(kStateSkip, "ssm_d", kStateHeads, has_scan),
    vector(kStateNorm, "ssm_norm.weight", kStateValues, has_scan),
    matrix(kStateOut, "ssm_out.weight", kDim, kStateValues, has_scan),
    matrix(kConvolutionGate, "shortconv.in_proj.weight", kStateValues, kDim, has_convolution, Fusion::kConvolution,
           "shortconv.in_proj.weight"),
    matrix(kConvolvedGate, "shortconv.in_proj.weight", kStateValues, kDim, has_convolution, Fusion::kConvolution,
           "shortconv.in_proj.weight"),
    matrix(kConvolutionInput, "shortconv.in_proj.weight", kStateValues, kDim, has_convolution, Fusion::kConvolution,
           "shortconv.in_proj.weight"),
    vector(kConvolutionTaps, "shortconv.conv.weight", kChannelTaps, has_convolution),
    matrix(kStateOut, "shortconv.out_proj.weight", kDim, kStateValues, has_convolution),
    matrix(kO, "attn_output.weight", kDim, kValues, attends),
    bias(kQBias, "attn_q.bias", kQueries, attends_without_gates, Fusion::kQkv, "attn_qkv.bias"),
    bias(kKBias, "attn_k.bias", kKeys, has_key_bias, Fusion::kQkv, "attn_qkv.bias"),
    bias(kVBias, "attn_v.bias", kKeys, has_value_bias, Fusion::kQkv, "attn_qkv.bias"),
    bias(kOBias, "attn_output.bias", kDim, attends),
    vector(kQNorm, "attn_q_norm.weight", kHeadDim, norms_heads),
    vector(kKNorm, "attn_k_norm.weight", kHeadDim, norms_own_keys),
    vector(kQNorm, "attn_q_norm.weight", kQueries, norms_tokens),
    vector(kKNorm, "attn_k_norm.weight", kKeys, norms_tokens),
    vector(kSinks, "attn_sinks.weight", kHeads, has_sinks),
    vector(kAttentionPostNorm, "post_attention_norm.weight", kDim, has_attention_post_norm),
    vector(kFfnNorm, "ffn_norm.weight", kDim, has_ffn_norm),
    bias(kFfnNormBias, "ffn_norm.bias", kDim, has_ffn_norm_bias),
    matrix(kGate, "ffn_gate.weight", kFfn, kDim, is_gated, Fusion::kGateUp, "ffn_up.weight"),
    matrix(kUp, "ffn_up.weight", kFfn, kDim, is_dense, Fusion::kGateUp, "ffn_up.weight"),
    matrix(kDown, "ffn_down.weight", kDim, kFfn, is_dense),
    bias(kGateBias, "ffn_gate.bias", kFfn, is_gated),
    bias(kUpBias, "ffn_up.bias", kFfn, is_dense),
    bias(kDownBias, "ffn_down.bias", kDim, is_dense),
    matrix(kRouter, "ffn_gate_inp.weight", kExperts, kDim, has_experts),
    bias(kRouterBias, "ffn_gate_inp.bias", kExperts, has_experts),
    bias(kChoiceBias, "exp_probs_b.bias", kExperts, has_experts),
    half_expert(kExpertGate, "ffn_gate_exps.weight", "ffn_gate.{}.weight", has_expert_gates),
    half_expert(kExpertUp, "ffn_up_exps.weight", "ffn_up.{}.weight", has_experts),
    per_expert(kExpertDown, "ffn_down_exps.weight", "ffn_down.{}.weight", kExpertDim, kExpertFfn),
    matrix(kExpertLatent, "ffn_latent_down.weight", kExpertInput, kDim, has_latent_experts),
    matrix(kExpertResult, "ffn_latent_up.weight", kDim, kExpertInput, has_latent_experts),
    expert_bias(kExpertGateBias, "ffn_gate_exps.bias", kExpertFfn),
    expert_bias(kExpertUpBias, "ffn_up_exps.bias", kExpertFfn),
    expert_bias(kExpertDownBias, "ffn_down_exps.bias", kDim),
    vector(kSharedScore, "ffn_gate_inp_shexp.weight", kDim, has_shared_gate),
    matrix(kSharedGate, "ffn_gate_shexp.weight", kSharedFfn, kDim, has_gate_of_shared),
    matrix(kSharedUp, "ffn_up_shexp.weight", kSharedFfn, kDim, has_shared),
    matrix(kSharedDown, "ffn_down_shexp.weight", kDim, kSharedFfn, has_shared),
    vector(kRouterScale, "ffn_gate_inp.scale", kDim, has_both),
    vector(kDensePostNorm, "post_ffw_norm_1.weight", kDim, has_both),
    vector(kExpertNorm, "pre_ffw_norm_2.weight", kDim, has_both),
    vector(kExpertPostNorm, "post_ffw_norm_2.weight", kDim, has_both),
    vector(kFfnPostNorm, "post_ffw_norm.weight", kDim, has_ffn_post_norm),
    of_first_stage(kLayerEmbedding, "per_layer_token_embd.weight", kVocabulary, kAllLayerInputs),
    of_first_stage(kLayerInputs, "per_layer_model_proj.weight", kAllLayerInputs, kDim),
    of_first_stage(kLayerInputNorm, "per_layer_proj_norm.weight", kOne, kLayerInput),
    matrix(kLayerGate, "inp_gate.weight", kLayerInput, kDim, has_layer_inputs),
    matrix(kLayerProjection, "proj.weight", kDim, kLayerInput, has_layer_inputs),
    vector(kLayerPostNorm, "post_norm.weight", kDim, has_layer_inputs),
    bias(kOutputScale, "layer_output_scale.weight", kOne, scales_output),
    {.role = kNgramEmbedding,
     .name = "per_layer_token_embd.weight",
     .holder = kFirstStage,
     .rows = kNgramRows,
     .cols = kNgramHead,
     .present = has_ngrams},
    matrix(kNgramKey, "ple_key.weight", kAllStreams, kNgrams, reads_ngrams),
    matrix(kNgramValue, "ple_value.weight", kWholeDim, kNgrams, reads_ngrams),
    vector(kNgramKeyNorm, "ple_norm_key.weight", kAllStreams, reads_ngrams),
    vector(kNgramQueryNorm, "ple_norm_query.weight", kAllStreams, reads_ngrams),
    vector(kNgramConvolutionNorm, "ple_norm_conv.weight", kAllStreams, reads_ngrams),
    vector(kNgramTaps, "ple_conv1d.weight", kNgramKernel, reads_ngrams),
    vector(kAttentionStreamNorm, "hc_attn_norm.weight", kAllStreams, mixes_streams),
    matrix(kAttentionStreamDown, "hc_attn_down.weight", kStreamRank, kAllStreams, mixes_streams),
    matrix(kAttentionStreamUp, "hc_attn_up.weight", kAllStreams, kStreamRank, mixes_streams),
    matrix(kAttentionStreamWeights, "hc_attn_inject.weight", kStreams, kAllStreams, mixes_streams),
    vector(kFfnStreamNorm, "hc_ffn_norm.weight", kAllStreams, feeds_streams),
    matrix(kFfnStreamDown, "hc_ffn_down.weight", kStreamRank, kAllStreams, feeds_streams),
    matrix(kFfnStreamUp, "hc_ffn_up.weight", kAllStreams, kStreamRank, feeds_streams),
    matrix(kFfnStreamWeights, "hc_ffn_inject.weight", kStreams, kAllStreams, feeds_streams),
    of_last_stage(kOutputStreamNorm, "output_hc_norm.weight", kOne, kAllStreams),
    of_last_stage(kOutputStreamDown, "output_hc_down.weight", kStreamRank, kAllStreams),
    of_last_stage(kOutputStreamUp, "output_hc_up.weight", kAllStreams, kStreamRank),
    {.role = kOutputNorm, .name = "output_norm.weight", .holder = kLastStage, .rows = kOne, .cols = kDim, .present = has_one_stream},
    {.role = kOutputNormBias,
     .name = "output_norm.bias",
     .holder = kLastStage,
     .rows = kOne,
     .cols = kDim,
     .present = has_attention_norm_bias,
     .optional = true},
    {.role = kOutput, .name = "output.weight", .holder = kLastStage, .rows = kVocabulary, .cols = kDim, .instead = "token_embd.weight"},
    {.role = kOutputBias, .name = "output.bias", .holder = kLastStage, .rows = kOne, .cols = kVocabulary, .optional = true},
    {.role = kRopeFactors, .name = "rope_freqs.weight", .holder = kEveryStage, .rows = kOne, .cols = kRotaryPairs, .optional = true},
    {.role = kLongRopeFactors,
     .name = "rope_factors_long.weight",
     .holder = kEveryStage,
     .rows = kOne,
     .cols = kRotaryPairs,
     .optional = true},
    {.role = kShortRopeFactors,
     .name = "rope_factors_short.weight",
     .holder = kEveryStage,
     .rows = kOne,
     .cols = kRotaryPairs,
     .optional = true},
};

}  // namespace

std::span<const TensorRow> common_tensors() { return kTensors; }

}  // namespace yamata
