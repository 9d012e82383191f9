#include "src/model/layer_spec.hpp"

#include <fmt/format.h>

#include "node/error.hpp"

namespace yamata {
namespace {

/// The bias that the file has, for the message.
std::string bias_of(const gguf::File& file, std::int64_t layer) {
  for (const char* bias :
       {"attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias", "ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"}) {
    std::string name = fmt::format("blk.{}.{}", layer, bias);
    if (file.find(name)) return name;
  }
  return fmt::format("blk.{}", layer);
}

}  // namespace

void require_supported(const gguf::File& file, const LayerSpec& spec, std::int64_t layer) {
  const LayerSpec llama;
  const auto refuse = [&](bool lacking, const std::string& what) {
    if (lacking) throw ModelError(fmt::format("{}: {}", file.name(), what));
  };
  refuse(spec.window != 0, "sliding-window attention is not supported yet");
  refuse(spec.experts != 0, "mixture-of-experts models are not supported yet");
  refuse(spec.qkv_bias || spec.attention_output_bias || spec.ffn_bias,
         fmt::format("tensor {}: biases are not supported yet", bias_of(file, layer)));
  refuse(spec.attention_norm != llama.attention_norm || spec.ffn_norm != llama.ffn_norm,
         "norms other than RMSNorm before attention and feed-forward are not supported yet");
  refuse(spec.attention_post_norm != NormKind::kNone || spec.ffn_post_norm != NormKind::kNone,
         "norms after attention or feed-forward are not supported yet");
  refuse(spec.qk_norm != NormKind::kNone, "norms of queries and keys are not supported yet");
  refuse(spec.attention_softcap != 0, "soft-capped attention is not supported yet");
  refuse(spec.rope == RopeKind::kNone, "attention without rotary positions is not supported yet");
  refuse(spec.parallel, "parallel attention and feed-forward are not supported yet");
  refuse(spec.activation != Activation::kSilu || !spec.gated, "feed-forward other than SwiGLU is not supported yet");
}

}  // namespace yamata
