#pragma once
// The weights of a stage, as they lie in the mapped file.
#include <optional>
#include <vector>

#include "node/op.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

struct LayerWeights {
  const float* attention_norm;  // [dim]
  Matrix q, k, v, o;            // [heads*head_dim, dim], [kv_heads*head_dim, dim] x2, [dim, heads*head_dim]
  const float* ffn_norm;        // [dim]
  Matrix gate, up, down;        // [ffn, dim] x2, [dim, ffn]
};

struct StageWeights {
  std::optional<Matrix> embedding;  // [vocabulary, dim], first stage
  std::vector<LayerWeights> layers;
  const float* output_norm = nullptr;  // [dim], last stage
  std::optional<Matrix> output;        // [vocabulary, dim], last stage; the embedding where the file ties them
  const float* rope_factors = nullptr;

  /// Finds the tensors of the layers; shapes are checked against `h`. Throws ModelError naming the tensor.
  static StageWeights find(const gguf::File& file, const Hyperparameters& h, LayerRange layers);
  /// The matrices that are multiplied with, each once.
  std::vector<Matrix*> factors();
};

/// Every tensor a stage reads: its layers, and embedding or output where it holds them (once where the file ties them).
std::vector<std::span<const std::byte>> stage_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange layers);
/// Bytes of weights a stage reads: its layers, and embedding or output where it holds them.
std::size_t stage_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange layers);
/// Bytes of one layer alone, without embedding or output.
std::size_t layer_bytes(const gguf::File& file, std::int64_t layer);

}  // namespace yamata
