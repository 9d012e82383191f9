#include "src/model/family.hpp"

#include <fmt/format.h>

#include "node/error.hpp"

namespace yamata {
namespace {

using enum TensorRole;
using enum Holder;
using enum Extent;

bool has_qkv_bias(const LayerSpec& spec) { return spec.qkv_bias; }
bool has_output_bias(const LayerSpec& spec) { return spec.attention_output_bias; }
bool is_gated(const LayerSpec& spec) { return spec.gated; }

constexpr TensorRow kLlamaTensors[] = {
    {kEmbedding, "token_embd.weight", kFirstStage, kVocabulary, kDim},
    {kAttentionNorm, "attn_norm.weight", kLayer, kOne, kDim},
    {kQ, "attn_q.weight", kLayer, kQueries, kDim},
    {kK, "attn_k.weight", kLayer, kKeys, kDim},
    {kV, "attn_v.weight", kLayer, kKeys, kDim},
    {kO, "attn_output.weight", kLayer, kDim, kQueries},
    {kQBias, "attn_q.bias", kLayer, kOne, kQueries, has_qkv_bias},
    {kKBias, "attn_k.bias", kLayer, kOne, kKeys, has_qkv_bias},
    {kVBias, "attn_v.bias", kLayer, kOne, kKeys, has_qkv_bias},
    {kOBias, "attn_output.bias", kLayer, kOne, kDim, has_output_bias},
    {kFfnNorm, "ffn_norm.weight", kLayer, kOne, kDim},
    {kGate, "ffn_gate.weight", kLayer, kFfn, kDim, is_gated},
    {kUp, "ffn_up.weight", kLayer, kFfn, kDim},
    {kDown, "ffn_down.weight", kLayer, kDim, kFfn},
    {kOutputNorm, "output_norm.weight", kLastStage, kOne, kDim},
    {kOutput, "output.weight", kLastStage, kVocabulary, kDim, nullptr, "token_embd.weight"},
    {kRopeFactors, "rope_freqs.weight", kEveryStage, kOne, kRotaryPairs, nullptr, nullptr, true},
};

const Family kFamilies[] = {{"llama", LayerSpec{}, kLlamaTensors}};

}  // namespace

std::span<const TensorRow> llama_tensors() { return kLlamaTensors; }

const Family& find_family(const gguf::File& file) {
  const auto name = file.string("general.architecture");
  if (!name) throw ModelError(fmt::format("{}: no general.architecture in its metadata; is it a language model?", file.name()));
  std::string supported;
  for (const Family& family : kFamilies) {
    if (*name == family.name) return family;
    supported += (supported.empty() ? "" : ", ") + std::string(family.name);
  }
  throw ModelError(fmt::format("{}: architecture '{}' is not supported; supported: {}", file.name(), *name, supported));
}

}  // namespace yamata
