#include "src/model/hyperparameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "node/error.hpp"
#include "node/head_dim.hpp"
#include "src/model/known_keys.hpp"
#include "src/model/metadata_reader.hpp"

namespace yamata {
namespace {

/// The scaling's type. A file without one is scaled linearly, if it has a factor, or by the factors per pair that it has.
std::string scaling_type(const MetadataReader& reader) {
  const bool factors = reader.file().find("rope_factors_long.weight") || reader.file().find("rope_factors_short.weight");
  return reader.string("rope.scaling.type", factors ? "longrope" : "linear");
}

RopeScaling read_scaling(const MetadataReader& reader, std::int64_t context) {
  const gguf::File& file = reader.file();
  RopeScaling rope;
  const std::string kind = scaling_type(reader);
  const float old_factor = reader.real_or_none("rope.scale_linear");  // of files older than rope.scaling; 0 means no scaling
  rope.factor = reader.real("rope.scaling.factor", old_factor == 0 ? 1 : old_factor);
  rope.attention_factor = reader.real("rope.scaling.attn_factor", 1.0);
  rope.original_context = reader.count("rope.scaling.original_context_length", 1 << 30, context);
  rope.beta_fast = reader.real("rope.scaling.yarn_beta_fast", rope.beta_fast);
  rope.beta_slow = reader.real("rope.scaling.yarn_beta_slow", rope.beta_slow);
  for (const char* key : {"rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"}) {
    if (reader.real(key, 1.0) != 1 && kind == "yarn")
      throw ModelError(fmt::format("{}: {}.{} other than 1 is not supported", file.name(), *file.string("general.architecture"), key));
  }
  if (kind == "none") {
    rope.factor = 1;
  } else if (kind == "linear") {
    if (rope.factor != 1 || reader.has("rope.scaling.type")) rope.kind = RopeScaling::Kind::kLinear;
  } else if (kind == "yarn") {
    rope.kind = RopeScaling::Kind::kYarn;
  } else if (kind == "longrope") {
    rope.kind = RopeScaling::Kind::kLong;
  } else {
    throw ModelError(fmt::format("{}: RoPE scaling '{}' is not supported; supported: none, linear, yarn, longrope", file.name(), kind));
  }
  return rope;
}

/// Some converters write the keys of experts for models without any, where they have no meaning.
void note_no_experts(const MetadataReader& reader) {
  for (const char* key : {"expert_used_count", "expert_feed_forward_length", "expert_shared_count", "expert_shared_feed_forward_length",
                          "expert_weights_norm", "expert_weights_scale", "expert_gating_func", "expert_group_count",
                          "expert_group_used_count", "leading_dense_block_count"})
    reader.has(key);
}

void read_experts(const MetadataReader& reader, Hyperparameters& h) {
  LayerSpec& layer = h.layer;
  layer.experts = reader.count_or_none("expert_count", kMaxExperts);
  if (layer.experts == 0) return note_no_experts(reader);
  layer.experts_used = reader.count("expert_used_count", layer.experts);
  layer.expert_ffn = reader.count("expert_feed_forward_length", 1 << 22, h.ffn);
  const std::int64_t shared = reader.count_or_none("expert_shared_count", kMaxExperts) * layer.expert_ffn;
  layer.shared_ffn = reader.count_or_none("expert_shared_feed_forward_length", 1 << 22, shared);
  layer.normalize_experts = reader.boolean("expert_weights_norm", layer.normalize_experts);
  const float scale = reader.real_or_none("expert_weights_scale");
  if (scale != 0) layer.experts_scale = scale;
  constexpr RouterKind kKinds[] = {RouterKind::kSoftmax, RouterKind::kSigmoid, RouterKind::kSoftmaxOfChosen};
  const std::int64_t kind = reader.count_or_none("expert_gating_func", 3);  // 0: the family's default
  if (kind > 0) layer.router = kKinds[kind - 1];
  const std::int64_t groups = reader.count_or_none("expert_group_count", layer.experts);
  if (groups > 1) layer.expert_groups = groups, layer.expert_groups_used = reader.count("expert_group_used_count", groups);
  reader.has("expert_group_used_count");  // of one group, all are used
  h.dense_layers = reader.count_or_none("leading_dense_block_count", h.layers);
}

/// Reads the sizes of latent attention. Older files describe the heads that result from the cached vectors, newer ones also the cached
/// vectors.
void read_latent(const MetadataReader& reader, Hyperparameters& h) {
  constexpr std::int64_t kMaxSize = 4096;
  LayerSpec& layer = h.layer;
  layer.latent_rank = reader.count("attention.kv_lora_rank", kMaxSize);
  layer.query_rank = reader.count_or_none("attention.q_lora_rank", 1 << 16);
  h.rotary_dim = reader.count("rope.dimension_count", kMaxSize);
  const std::int64_t key = reader.count("attention.key_length_mla", kMaxSize, h.head_dim);
  layer.value_dim = reader.count("attention.value_length_mla", kMaxSize, reader.count("attention.value_length", kMaxSize, key));
  if (key <= h.rotary_dim)
    throw ModelError(
        fmt::format("{}: heads of {} elements of which {} rotate; convert the model again", reader.file().name(), key, h.rotary_dim));
  layer.plain_dim = key - h.rotary_dim;
  h.head_dim = h.rotary_dim + layer.latent_rank;
  h.kv_heads = 1;
}

void require_fitting(const gguf::File& file, const Hyperparameters& h) {
  const auto refuse = [&](const std::string& what) { throw ModelError(fmt::format("{}: {}", file.name(), what)); };
  const auto* tokens = file.strings("tokenizer.ggml.tokens");
  if (tokens != nullptr && static_cast<std::int64_t>(tokens->size()) != h.vocabulary)
    refuse(
        fmt::format("the vocabulary has {} tokens, but token_embd.weight {} rows; convert the model again", tokens->size(), h.vocabulary));
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, std::ssize(h.layer_kv_heads)); ++i) {
    const std::int64_t kv_heads = h.layer_kv_heads.empty() ? h.kv_heads : h.layer_kv_heads[static_cast<std::size_t>(i)];
    if (h.heads % kv_heads != 0) refuse(fmt::format("{} heads do not share {} key/value heads evenly", h.heads, kv_heads));
  }
  if (h.is_latent() && h.head_dim % 16 != 0) refuse(fmt::format("latent vectors of {} values are not a multiple of 16", h.head_dim));
  if (h.head_dim < 1 || h.head_dim > kMaxHeadDim) refuse(fmt::format("head size {} is not between 1 and {}", h.head_dim, kMaxHeadDim));
}

/// Files of Nemotron-H may have it under the other name.
float read_epsilon(const MetadataReader& reader, const Hyperparameters& h) {
  constexpr const char *kRms = "attention.layer_norm_rms_epsilon", *kLayer = "attention.layer_norm_epsilon";
  return reader.real(h.output_norm() == NormKind::kLayer || (h.layer.alone && !reader.has(kRms)) ? kLayer : kRms);
}

/// Heads whose size is no multiple of 16 are cached in one of 32, which every cache type can store.
void pad_heads(Hyperparameters& h) {
  if (h.head_dim % 16 == 0) return;
  h.padding = 32 - h.head_dim % 32;
  h.head_dim += h.padding;
}

/// Ids beyond the vocabulary are ignored, as by llama.cpp.
std::vector<std::int32_t> read_suppressed(const gguf::File& file, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (const double id : file.numbers("tokenizer.ggml.suppress_tokens")) {
    if (id >= 0 && id < static_cast<double>(vocabulary)) tokens.push_back(static_cast<std::int32_t>(id));
  }
  return tokens;
}

bool has_scales(const gguf::File& file) {
  return std::ranges::any_of(file.tensors(), [](const gguf::Tensor& tensor) { return tensor.name.ends_with(".scale"); });
}

}  // namespace

Hyperparameters Hyperparameters::read(const gguf::File& file) {
  Hyperparameters h;
  h.family = &find_family(file);
  const MetadataReader reader(file, h.family->name);
  const std::string prefix = std::string(h.family->name) + ".";
  h.layer = h.family->layer;
  h.layers = reader.count("block_count", 4096);
  h.nextn_layers = reader.count_or_none("nextn_predict_layers", h.layers - 1);
  h.layers -= h.nextn_layers;
  h.dim = reader.count("embedding_length", 1 << 20);
  // Files of models whose layers all have experts may lack it.
  const bool only_experts = h.layer.output_gate && reader.has("expert_feed_forward_length");
  h.ffn = reader.per_layer("feed_forward_length", 1 << 22, only_experts ? std::optional<std::int64_t>(1) : std::nullopt,
                           h.family->varied ? &h.layer_ffn : nullptr, h.layer.alone);
  h.heads = reader.per_layer("attention.head_count", 1 << 14);
  h.kv_heads =
      reader.per_layer("attention.head_count_kv", h.heads, h.heads, h.family->varied ? &h.layer_kv_heads : nullptr, h.family->gaps);
  h.head_dim = reader.count("attention.key_length", 4096, h.dim / h.heads);
  h.context = reader.count("context_length", 1 << 30);
  h.epsilon = read_epsilon(reader, h);
  h.layer.rope_base = reader.real("rope.freq_base", h.layer.rope_base);
  h.rope = read_scaling(reader, h.context);
  if (h.rope.kind == RopeScaling::Kind::kYarn && h.layer.rope_base <= 1.0f) {
    throw ModelError(fmt::format("{}: {}rope.freq_base is {}, which YaRN cannot scale; convert the model again", file.name(), prefix,
                                 h.layer.rope_base));
  }
  h.vocabulary = file.tensor("token_embd.weight").rows();
  if (reader.has("attention.kv_lora_rank")) read_latent(reader, h);
  require_fitting(file, h);
  const auto refuse = [&](const std::string& what) { throw ModelError(fmt::format("{}: {}", file.name(), what)); };
  h.rotary_dim = reader.count("rope.dimension_count", h.head_dim, h.head_dim);
  if (h.rotary_dim % 2 != 0) refuse(fmt::format("rotary dimension {} is odd", h.rotary_dim));
  if (!h.is_latent() && reader.count("attention.value_length", 4096, h.head_dim) != h.head_dim)
    refuse("key and value sizes differ, which is not supported");
  if (!reader.boolean("attention.causal", true)) refuse("tokens see those after them, which is not supported");
  read_experts(reader, h);
  if (h.family->read) h.family->read(reader, h);
  if (h.layer.rope == RopeKind::kNone) h.rotary_dim = 0;
  h.layer.scaled = has_scales(file);
  h.suppressed = read_suppressed(file, h.vocabulary);
  pad_heads(h);
  if (h.padding > 0 && h.layer.qk_norm_last)
    refuse(fmt::format("norms after RoPE of heads of {} elements, no multiple of 16, are not supported", h.query_dim()));
  require_supported(file, h.layer);
  require_known_keys(reader, *h.family);
  return h;
}

LayerSpec Hyperparameters::with_window(bool windowed) const {
  LayerSpec spec = layer;
  if (!windowed) spec.window = 0;
  if (spec.window > 0) {
    if (window_rope_base > 0) spec.rope_base = window_rope_base;
    spec.rope_scaled = window_rope_scaled;
    spec.rope_factors = window_rope_factors;
  }
  if (only_windows_rotate && layer.window > 0) {
    if (spec.window > 0)
      spec.query_scale = 0;
    else
      spec.rope = RopeKind::kNone;
    if (spec.window == 0 && spec.qk_norm == QkNorm::kUnit) spec.qk_norm = QkNorm::kNone;
  }
  return spec;
}

LayerSpec Hyperparameters::layer_at(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  LayerSpec spec = with_window(has_window(index));
  if (index < dense_layers || index % expert_period != expert_period - 1) spec.experts = 0;
  if (unrotated_period > 0 && index % unrotated_period == unrotated_period - 1) spec.rope = RopeKind::kNone;
  if (at < mixers.size()) spec.mixer = mixers[at];
  if (spec.recurrent()) spec.output_gate = false;
  if (spec.alone && spec.mixer != Mixer::kNone) spec.feeds = false, spec.experts = 0;
  if (index >= layers) spec.picked = 0;  // a layer that only guesses sees all tokens
  if (spec.recurrent() || (at < sparse.size() && !sparse[at])) spec.picked = 0;
  if (spec.picked == 0 || (at < indexed.size() && !indexed[at])) spec.index_heads = 0;
  spec.reads_cache = cache_layer(index) != index;
  spec.reads_ngrams = ngrams.any() && ngrams.layer == index;
  spec.values_from_keys = at < tied_values.size() && tied_values[at] && !spec.reads_cache;
  return spec;
}

bool Hyperparameters::has_window(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  const bool by_pattern = window_pattern == 0 || index % window_pattern != window_pattern - 1;
  return layer.window > 0 && (windows.empty() ? by_pattern : at < windows.size() && windows[at]);
}

std::int64_t Hyperparameters::cache_layer(std::int64_t index) const {
  if (first_shared == 0 || index < first_shared) return index;
  std::int64_t found = first_shared - 1;
  while (found > 0 && has_window(found) != has_window(index)) --found;
  return found;
}

Hyperparameters Hyperparameters::of_window(bool windowed) const {
  Hyperparameters one = *this;
  if (windowed && window_head_dim > 0) one.head_dim = window_head_dim, one.rotary_dim = window_rotary_dim;
  one.window_head_dim = one.window_rotary_dim = 0;
  return one;
}

Hyperparameters Hyperparameters::of_layer(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  Hyperparameters one = of_window(has_window(index));
  if (at < layer_kv_heads.size()) one.kv_heads = layer_kv_heads[at];
  if (at < layer_ffn.size()) one.ffn = layer_ffn[at];
  one.layer_kv_heads.clear(), one.layer_ffn.clear();
  return one;
}

float Hyperparameters::query_scale_at(std::int64_t position) const {
  const auto times = static_cast<double>((position + query_scale_offset) / query_scale_length);
  return static_cast<float>(1.0 + static_cast<double>(layer.query_scale) * std::log(1.0 + times));
}

std::int64_t Hyperparameters::active_ffn() const {
  const std::int64_t experts = layer.experts > 0 ? layer.experts_used * layer.expert_ffn + layer.shared_ffn : 0;
  if (layer.dense_beside) return ffn + experts;
  return std::max(has_dense_layers() ? ffn : 0, experts);
}

std::int64_t Hyperparameters::widest_input() const {
  const std::int64_t used = layer.experts > 0 ? layer.experts_used : 0;
  const std::int64_t latent = is_latent() ? heads * std::max(layer.latent_rank, layer.plain_dim) : 0;  // separate for every head
  return std::max({residual_dim(), layer.stream_rank, heads * (value_dim() + widest_head() - head_dim), layer.input_dim, ngrams.dim(),
                   state.values(), latent, layer.query_rank, has_dense_layers() ? ffn : 0, layer.shared_ffn,
                   used * std::max({dim, layer.expert_ffn, layer.expert_dim})});
}

std::int64_t windowed_layers(const Hyperparameters& h, LayerRange layers) {
  std::int64_t windowed = 0;
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) windowed += h.layer_at(layer).window > 0;
  return windowed;
}

std::int64_t attending_layers(const Hyperparameters& h, LayerRange layers) {
  std::int64_t attending = 0;
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) attending += h.layer_at(layer).attends();
  return attending;
}

std::int64_t recurrent_layers(const Hyperparameters& h, LayerRange layers) {
  std::int64_t recurrent = 0;
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) recurrent += h.layer_at(layer).recurrent();
  return recurrent;
}

std::string beyond_training(const Hyperparameters& h, std::int64_t tokens) {
  if (tokens <= h.context) return "";
  using Kind = RopeScaling::Kind;
  constexpr const char* kNames[] = {"none", "linear", "yarn", "longrope"};
  const std::string scaling = h.rope.kind == Kind::kNone
                                  ? "no RoPE scaling"
                                  : fmt::format("RoPE scaling '{}' by {} from {} tokens", kNames[static_cast<std::size_t>(h.rope.kind)],
                                                h.rope.factor, h.rope.original_context);
  return fmt::format(
      "a context of {} tokens is more than the {} that the model was trained for (its file has {}); text beyond them will be poor", tokens,
      h.context, scaling);
}

}  // namespace yamata
