#include "src/model/sparse_reader.hpp"

#include <fmt/format.h>

#include <cmath>

#include "node/head_dim.hpp"
#include "src/model/family_readers.hpp"
#include "src/model/hyperparameters.hpp"
#include "src/model/metadata_reader.hpp"

namespace yamata {
namespace {

constexpr std::int64_t kMostBlock = 1024;  // tokens

/// Files that do not say which layers have an index: of models trained for a million tokens (GLM 5.2), the first two and then every fourth
/// have one; of older ones, all.
void read_indexed_layers(const MetadataReader& reader, Hyperparameters& h) {
  constexpr std::int64_t kMillion = 1 << 20, kFirst = 2, kPeriod = 4;
  if (const auto listed = reader.layer_flags("attention.indexer.types", h.layers)) {
    h.indexed = *listed;
    if (!h.indexed.front())
      throw ModelError(
          fmt::format("{}: its first layer attends to what a layer before it picked; convert the model again", reader.file().name()));
    return;
  }
  for (std::int64_t layer = 0; h.context >= kMillion && layer < h.layers; ++layer)
    h.indexed.push_back(layer < kFirst || (layer - kFirst) % kPeriod == 0);
}

void read_index_sizes(const MetadataReader& reader, Hyperparameters& h) {
  constexpr std::int64_t kMostHeads = 1 << 10, kMostDim = kMaxHeadDim, kMostPicked = 1 << 20, kBlock = 32;
  LayerSpec& layer = h.layer;
  layer.index_heads = reader.count("attention.indexer.head_count", kMostHeads);
  layer.index_dim = reader.count("attention.indexer.key_length", kMostDim);
  layer.picked = reader.count("attention.indexer.top_k", kMostPicked);
  if (layer.index_dim % kBlock != 0)
    reader.refuse(fmt::format("keys of an index of {} values are not a multiple of {}", layer.index_dim, kBlock));
  if (layer.index_dim < h.rotary_dim)
    reader.refuse(fmt::format("of keys of an index of {} values, {} rotate; convert the model again", layer.index_dim, h.rotary_dim));
}

void read_index(const MetadataReader& reader, Hyperparameters& h) {
  LayerSpec& layer = h.layer;
  reader.require({"attention.q_lora_rank", "attention.kv_lora_rank", "attention.key_length_mla", "attention.value_length_mla",
                  "expert_feed_forward_length", "expert_shared_count"});
  read_index_sizes(reader, h);
  if (layer.query_rank == 0) reader.refuse("an index needs a latent vector of queries; convert the model again");
  read_latent_scores(reader, h);
}

/// Tokens of a block in each layer, 0 where attention is not sparse.
std::vector<double> read_blocks(const MetadataReader& reader, const Hyperparameters& h) {
  constexpr const char* kKey = "attention.compress_ratios";
  if (reader.layer_flags(kKey, h.layers)) return reader.file().numbers(fmt::format("{}.{}", h.family->name, kKey));
  return std::vector<double>(static_cast<std::size_t>(h.layers), static_cast<double>(reader.count_or_none(kKey, kMostBlock)));
}

}  // namespace

void read_block_index(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"attention.indexer.head_count", "attention.indexer.key_length", "attention.indexer.top_k"});
  const std::vector<double> blocks = read_blocks(reader, h);
  double block = 0;
  for (std::int64_t layer = 0; layer < h.layers; ++layer) {
    const double tokens = blocks[static_cast<std::size_t>(layer)];
    h.sparse.push_back(tokens != 0 && h.mixers[static_cast<std::size_t>(layer)] == Mixer::kAttention);
    if (!h.sparse.back()) continue;
    if (!(tokens >= 1 && tokens <= kMostBlock && std::floor(tokens) == tokens))
      reader.refuse(fmt::format("attention.compress_ratios of layer {} is {}, no whole number from 0 to {}", layer, tokens, kMostBlock));
    if (block != 0 && block != tokens) reader.refuse("attention.compress_ratios differ between layers, which is not supported");
    block = tokens;
  }
  if (block == 0) return h.sparse.clear();
  read_index_sizes(reader, h);
  h.layer.index_block = static_cast<std::int64_t>(block);
  if (h.layer.picked % h.layer.index_block != 0)
    reader.refuse(fmt::format("attention.indexer.top_k {} is no number of whole blocks of {}", h.layer.picked, h.layer.index_block));
}

void read_deepseek32(const MetadataReader& reader, Hyperparameters& h) {
  reader.require({"expert_gating_func"});
  read_index(reader, h);
}

/// The index has RoPE pairs like attention (its publisher's `indexer_rope_interleave`).
void read_glm_dsa(const MetadataReader& reader, Hyperparameters& h) {
  if (reader.count_or_none("expert_gating_func", 3) == 0) h.layer.router = RouterKind::kSigmoid;
  h.layer.index_rope = RopeKind::kInterleaved;
  read_index(reader, h);
  read_indexed_layers(reader, h);
}

}  // namespace yamata
