// Per-layer embeddings (Gemma 4).
#include <cmath>
#include <numbers>

#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// Two embeddings of a token, added and divided by the root of 2: its own for all layers, and a product of the model's embedding, with a
/// norm for each layer.
void LayerOps::add_layer_inputs(const WeightSet& w, std::span<const std::int32_t> tokens) {
  const auto rows = static_cast<std::int64_t>(tokens.size());
  const std::int64_t size = h_.layer.input_dim, all = h_.layers * size;
  float *inputs = buffers_.layer_inputs.data(), *products = buffers_.layer_gates.data();
  const float half = 1.0f / std::numbers::sqrt2_v<float>, own_scale = std::sqrt(static_cast<float>(size)) * half;
  ops_.push_back(EmbedOp{&w.matrix(kLayerEmbedding), tokens, inputs, own_scale});
  LinearOp product{.x = buffers_.x.data(), .rows = rows, .cols = h_.dim, .parts = {}, .add = false};
  product.parts[0] = {.weight = &w.matrix(kLayerInputs), .y = products};
  ops_.push_back(product);
  ops_.push_back(ScaleOp{.x = products, .n = rows * all, .scale = 1.0f / std::sqrt(static_cast<float>(h_.dim))});
  ops_.push_back(NormOp{.x = products,
                        .rows = rows * h_.layers,
                        .cols = size,
                        .x_stride = size,
                        .weight = w.vector(kLayerInputNorm),
                        .epsilon = h_.epsilon,
                        .out = products,
                        .out_cols = size,
                        .out_stride = size});
  ops_.push_back(AddOp{.to = inputs, .from = products, .rows = rows, .cols = all, .to_stride = all, .from_stride = all, .scale = half});
}

void LayerOps::add_layer_input(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, std::int64_t rows) {
  const Interval own = shard_.rows(Extent::kLayerInput);
  LinearOp gate = residual_input(buffers_.x.data(), rows, nullptr, false);
  if (shard_.whole()) gate.input = nullptr;
  gate.parts[0] = {.weight = &w.matrix(kLayerGate), .y = cache.input_gates + own.begin, .stride = cache.input_stride};
  ops_.push_back(gate);
  add_to_residual(spec,
                  {.x = cache.input_gates + own.begin,
                   .rows = rows,
                   .cols = spec.input_dim,
                   .parts = {},
                   .add = true,
                   .up = cache.inputs + own.begin,
                   .input = buffers_.input.data(),
                   .x_stride = cache.input_stride,
                   .share = shared(shard_.layer_input()),
                   .activation = spec.activation},
                  {&w.matrix(kLayerProjection), nullptr}, {NormKind::kRms, w.vector(kLayerPostNorm), nullptr});
}

}  // namespace yamata
