#include "src/model/state_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/model/family_readers.hpp"
#include "src/model/hyperparameters.hpp"
#include "src/model/metadata_reader.hpp"
#include "src/model/ngram_reader.hpp"
#include "src/model/sparse_reader.hpp"

namespace yamata {
namespace {

/// Of every four layers, three have a gated delta rule, unless the file has another interval, or a list with a boolean for each layer.
void read_recurrent_layers(const MetadataReader& reader, Hyperparameters& h) {
  const auto listed = reader.layer_flags("attention.recurrent_layers", h.layers);
  const std::int64_t interval = reader.count("full_attention_interval", 4096, 4);
  for (std::int64_t layer = 0; layer < h.layers; ++layer) {
    const bool recurrent = listed ? (*listed)[static_cast<std::size_t>(layer)] : (layer + 1) % interval != 0;
    h.mixers.push_back(recurrent ? Mixer::kDeltaRule : Mixer::kAttention);
  }
}

/// The sizes of a scan's states. Heads that share keys are consecutive.
void read_scan(const MetadataReader& reader, Hyperparameters& h) {
  constexpr std::int64_t kMostHeads = 1 << 12, kMostDim = StateShape::kMostDim;
  const std::int64_t taps = reader.count("ssm.conv_kernel", 64), inner = reader.count("ssm.inner_size", kMostHeads * kMostDim);
  StateShape& s = h.state;
  s = {.heads = reader.count("ssm.time_step_rank", kMostHeads), .key_heads = reader.count("ssm.group_count", kMostHeads)};
  s.dim = inner / s.heads, s.key_dim = reader.count("ssm.state_size", kMostDim), s.scan = true;
  if (taps != StateShape::kTaps)
    reader.refuse(fmt::format("convolutions of {} tokens are not supported, only of {}", taps, StateShape::kTaps));
  if (inner != s.values())
    reader.refuse(fmt::format("ssm.inner_size {} is not divided by {} heads; convert the model again", inner, s.heads));
  if (s.dim < 1 || s.dim > kMostDim || s.dim % StateShape::kBlock != 0 || s.key_dim % StateShape::kBlock != 0)
    reader.refuse(
        fmt::format("states of {} x {} are not supported, only multiples of {} up to {}", s.key_dim, s.dim, StateShape::kBlock, kMostDim));
  if (s.heads % s.key_heads != 0)
    reader.refuse(fmt::format("{} heads are not {} equal groups; convert the model again", s.heads, s.key_heads));
}

}  // namespace

/// In Qwen3-Next, consecutive value heads share a key head; the files of its successors have them in turn.
void read_states(const MetadataReader& reader, Hyperparameters& h) {
  constexpr std::int64_t kMostHeads = 1 << 12, kMostDim = StateShape::kMostDim;
  const std::int64_t taps = reader.count("ssm.conv_kernel", 64), inner = reader.count("ssm.inner_size", kMostHeads * kMostDim);
  h.state = {.heads = reader.count("ssm.time_step_rank", kMostHeads),
             .key_heads = reader.count("ssm.group_count", kMostHeads),
             .dim = reader.count("ssm.state_size", kMostDim),
             .cyclic = !h.layer.joint_gates};
  if (h.state.cyclic) reader.require({"rope.dimension_sections"});  // of positions that are equal in texts
  if (h.head_dim % 16 != 0) reader.refuse("heads with gates are supported only in multiples of 16");
  if (taps != StateShape::kTaps)
    reader.refuse(fmt::format("convolutions of {} tokens are not supported, only of {}", taps, StateShape::kTaps));
  if (h.state.dim % StateShape::kBlock != 0)
    reader.refuse(fmt::format("a state size of {} is not a multiple of {}", h.state.dim, StateShape::kBlock));
  if (h.state.heads % h.state.key_heads != 0)
    reader.refuse(
        fmt::format("{} value heads do not share {} key heads evenly; convert the model again", h.state.heads, h.state.key_heads));
  if (inner != h.state.values()) reader.refuse(fmt::format("ssm.inner_size {} is not {} heads of {}", inner, h.state.heads, h.state.dim));
  read_recurrent_layers(reader, h);
}

void read_qwen4exp(const MetadataReader& reader, Hyperparameters& h) {
  read_states_and_experts(reader, h);
  h.layer.streams = reader.count("hyper_connection.count", kMostStreams);
  h.layer.stream_rank = reader.count("hyper_connection.low_rank", 1 << 16);
  if (h.dim % 32 != 0) reader.refuse(fmt::format("hyper-connections of {} values, no multiple of 32, are not supported", h.dim));
  read_block_index(reader, h);
  read_ngrams(reader, h);
}

/// The state of a convolution of all channels.
void read_lfm2(const MetadataReader& reader, Hyperparameters& h) {
  const std::int64_t taps = reader.count("shortconv.l_cache", 64);
  if (taps < 2 || taps > StateShape::kTaps)
    reader.refuse(fmt::format("convolutions of {} tokens are not supported, only of 2 to {}", taps, StateShape::kTaps));
  if (h.dim % StateShape::kBlock != 0)
    reader.refuse(fmt::format("convolutions of {} channels, no multiple of 16, are not supported", h.dim));
  const auto attends = reader.layer_flags("attention.head_count_kv", h.layers);
  for (std::int64_t layer = 0; attends && layer < h.layers; ++layer)
    h.mixers.push_back((*attends)[static_cast<std::size_t>(layer)] ? Mixer::kAttention : Mixer::kConvolution);
  h.state = {.heads = h.dim / StateShape::kBlock, .dim = StateShape::kBlock, .taps = taps};
}

void read_granitehybrid(const MetadataReader& reader, Hyperparameters& h) {
  read_granite_scales(reader, h);
  read_scan(reader, h);
  const auto attends = reader.layer_flags("attention.head_count_kv", h.layers);
  for (std::int64_t layer = 0; attends && layer < h.layers; ++layer)
    h.mixers.push_back((*attends)[static_cast<std::size_t>(layer)] ? Mixer::kAttention : Mixer::kScan);
}

/// A layer with a feed-forward has nothing else. The routers' biases may not be left out.
void read_nemotron_h(const MetadataReader& reader, Hyperparameters& h) {
  read_scan(reader, h);
  const auto attends = reader.layer_flags("attention.head_count_kv", h.layers), feeds = reader.layer_flags("feed_forward_length", h.layers);
  for (std::int64_t layer = 0; layer < h.layers; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    h.mixers.push_back(!feeds || (*feeds)[at] ? Mixer::kNone : !attends || (*attends)[at] ? Mixer::kAttention : Mixer::kScan);
    if (h.layer.experts > 0 && h.mixers.back() == Mixer::kNone) reader.file().tensor(fmt::format("blk.{}.exp_probs_b.bias", layer));
  }
  h.layer.router = RouterKind::kSigmoid;
  const std::int64_t latent = reader.count_or_none("moe_latent_size", 1 << 20);
  if (h.layer.experts > 0) h.layer.expert_dim = latent;
  if (h.layer.experts > 0 && !reader.has("expert_feed_forward_length"))
    h.layer.expert_ffn = std::max<std::int64_t>(1, h.ffn / h.layer.experts_used);
}

void read_lfm2moe(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"expert_count", "expert_used_count", "expert_feed_forward_length", "expert_gating_func"});
  read_lfm2(reader, h);
  for (std::int64_t layer = h.dense_layers; layer < h.layers; ++layer) reader.file().tensor(fmt::format("blk.{}.exp_probs_b.bias", layer));
}

}  // namespace yamata
