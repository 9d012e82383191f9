#include "src/model/tensor_sizes.hpp"

namespace yamata {
namespace {

/// Of extents that the layer's spec has.
std::int64_t length_in_layer(Extent extent, const LayerSpec& spec) {
  switch (extent) {
    case Extent::kQueryRank:
      return spec.query_rank;
    case Extent::kLatentRank:
      return spec.latent_rank;
    case Extent::kPlain:
      return spec.plain_dim;
    case Extent::kValueDim:
      return spec.value_dim;
    case Extent::kIndexQueries:
      return spec.index_heads * spec.index_dim;
    case Extent::kIndexHeads:
      return spec.index_heads;
    case Extent::kIndexDim:
      return spec.index_dim;
    case Extent::kExperts:
      return spec.experts;
    case Extent::kExpertFfn:
      return spec.expert_ffn;
    case Extent::kSharedFfn:
      return spec.shared_ffn;
    case Extent::kLayerInput:
      return spec.input_dim;
    case Extent::kNgrams:
      return spec.ngram_dim;
    case Extent::kStreams:
      return spec.streams;
    case Extent::kStreamRank:
      return spec.stream_rank;
    default:
      return 0;
  }
}

}  // namespace

std::int64_t length(Extent extent, const Hyperparameters& h, const LayerSpec& spec) {
  switch (extent) {
    case Extent::kOne:
      return 1;
    case Extent::kDim:
      return h.dim;
    case Extent::kExpertDim:
    case Extent::kExpertInput:
      return h.expert_dim();
    case Extent::kVocabulary:
      return h.vocabulary;
    case Extent::kQueries:
      return h.heads * h.query_dim();
    case Extent::kValues:
      return h.heads * h.value_dim();
    case Extent::kKeys:
      return h.kv_heads * h.key_dim();
    case Extent::kHeads:
      return h.heads;
    case Extent::kHeadDim:
      return h.query_dim();
    case Extent::kRotary:
      return h.rotary_dim;
    case Extent::kGatedQueries:
      return 2 * h.heads * h.query_dim();
    case Extent::kChannels:
      return h.state.channels();
    case Extent::kChannelTaps:
      return h.state.taps * h.state.channels();
    case Extent::kStateKeys:
      return h.state.keys();
    case Extent::kStateValues:
      return h.state.values();
    case Extent::kStateHeads:
      return h.state.heads;
    case Extent::kHeadGates:
      return 2 * h.state.heads;
    case Extent::kStateDim:
      return h.state.dim;
    case Extent::kFfn:
      return h.ffn;
    case Extent::kAllLayerInputs:
      return h.layers * spec.input_dim;
    case Extent::kAllStreams:
      return h.residual_dim();
    case Extent::kNgramRows:
      return h.ngrams.table_rows;
    case Extent::kNgramHead:
      return h.ngrams.head_dim;
    case Extent::kWholeDim:
      return h.dim;
    case Extent::kNgramKernel:
      return h.ngrams.taps * h.residual_dim();
    case Extent::kRotaryPairs:
      return h.rotary_dim / 2;
    default:
      return length_in_layer(extent, spec);
  }
}

Fused fused_rows(const TensorRow& row, const Hyperparameters& h) {
  const std::int64_t queries = h.heads * h.query_dim(), keys = h.kv_heads * h.key_dim();
  if (row.fusion == Fusion::kLatent) {
    const std::int64_t rank = h.layer.latent_rank;
    return {rank + h.rotary_dim, row.role == TensorRole::kLatentRotary ? rank : 0};
  }
  if (row.fusion == Fusion::kState) {
    const std::int64_t before = row.role == TensorRole::kRuleQueries ? 0 : row.role == TensorRole::kRuleKeys ? 1 : 2;
    return {h.state.channels(), before * h.state.keys()};
  }
  if (row.fusion == Fusion::kScan) {
    const std::int64_t values = h.state.values(), keys = h.state.keys(), heads = h.state.heads;
    const std::int64_t before = row.role == TensorRole::kConvolvedGate ? 0
                                : row.role == TensorRole::kRuleValues  ? values
                                : row.role == TensorRole::kRuleKeys    ? 2 * values
                                : row.role == TensorRole::kRuleQueries ? 2 * values + keys
                                                                       : 2 * (values + keys);
    return {2 * (values + keys) + heads, before};
  }
  if (row.fusion == Fusion::kConvolution) {
    const std::int64_t before = row.role == TensorRole::kConvolutionGate ? 0 : row.role == TensorRole::kConvolvedGate ? 1 : 2;
    return {3 * h.state.values(), before * h.state.values()};
  }
  if (row.fusion == Fusion::kGateUp) return {2 * h.ffn, row.role == TensorRole::kUp ? h.ffn : 0};
  if (row.fusion == Fusion::kExpertGateUp) return {2 * h.layer.expert_ffn, row.role == TensorRole::kExpertUp ? h.layer.expert_ffn : 0};
  const bool key = row.role == TensorRole::kK || row.role == TensorRole::kKBias;
  const bool value = row.role == TensorRole::kV || row.role == TensorRole::kVBias;
  return {queries + 2 * keys, key ? queries : value ? queries + keys : 0};
}

}  // namespace yamata
