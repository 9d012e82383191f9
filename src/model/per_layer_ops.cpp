// What Gemma 4 has besides what its predecessors have: norms of values, keys and values that pass to another stage, per-layer embeddings,
// a dense feed-forward beside the experts, and tokens that are never generated.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// RMSNorm of every head's keys, and without weights of its values.
void LayerOps::norm_keys_and_values(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, std::int64_t rows) {
  const std::int64_t size = h_.key_dim();
  float* k = buffers_.k.data();
  const auto norm = [&](const float* x, const float* weight, float* out) {
    return NormOp{.x = x,
                  .rows = rows * shard_.kv_heads(),
                  .cols = size,
                  .x_stride = size,
                  .weight = weight,
                  .epsilon = h_.epsilon,
                  .out = out,
                  .out_cols = size,
                  .out_stride = size};
  };
  const NormOp values = norm(spec.values_from_keys ? k : buffers_.v.data(), buffers_.ones.data(), buffers_.v.data());
  const NormOp keys = norm(k, w.vector(kKNorm), k);
  if (cache.passed_k) pass_keys_and_values(keys, values, cache, rows);
  ops_.push_back(values);
  ops_.push_back(keys);
}

/// The same norms for another stage, head by head, since rows have the heads of all members there.
void LayerOps::pass_keys_and_values(const NormOp& keys, const NormOp& values, const LayerCache& cache, std::int64_t rows) {
  const std::int64_t all = h_.kv_heads * h_.key_dim();
  const Interval own = shard_.rows(Extent::kKeys);
  for (const auto& [op, to] : {std::pair(keys, cache.passed_k), std::pair(values, cache.passed_v)}) {
    for (std::int64_t head = 0; head < shard_.kv_heads(); ++head) {
      NormOp one = op;
      one.rows = rows;
      one.x += head * op.cols, one.x_stride = own.count();
      one.out = to + own.begin + head * op.cols, one.out_stride = all;
      ops_.push_back(one);
    }
    if (!shard_.whole()) ops_.push_back(AllGatherOp{to, rows, all, shared(shard_.keys())});
  }
}

void LayerOps::add_cells(const LayerSpec& spec, const LayerCache& cache, float* k, const float* v, std::int64_t rows) {
  StoreOp op = store(spec, cache, rows);
  op.k = k, op.v = v, op.q_heads = 0, op.q_scale = nullptr;
  ops_.push_back(op);
}

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

void LayerOps::suppress_tokens(std::int64_t rows) {
  const Interval here = shard_.rows(Extent::kVocabulary);
  float* added = buffers_.suppressed.data();
  std::fill_n(added, here.count(), 0.0f);
  for (const std::int32_t token : h_.suppressed) {
    if (token >= here.begin && token < here.end) added[token - here.begin] = -std::numeric_limits<float>::infinity();
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    ops_.push_back(AddOp{.to = buffers_.logits.data() + row * here.count(),
                         .from = added,
                         .rows = 1,
                         .cols = here.count(),
                         .to_stride = here.count(),
                         .from_stride = here.count()});
  }
}

/// Each has norms of its input and of its result; the sum has another.
void LayerOps::add_both_feed_forwards(const LayerSpec& spec, const WeightSet& w, std::int64_t rows) {
  const std::int64_t own = shard_.rows(Extent::kDim).count();
  float *dense = buffers_.sums.data(), *experts = expert_sum(rows);
  LinearOp gate = normed_input(ffn_norm_of(spec, w), rows, false);
  gate.parts = {{{.weight = &w.matrix(kGate), .y = buffers_.gate.data(), .bias = own_part(w.vector(kGateBias), Extent::kFfn)},
                 {.weight = &w.matrix(kUp), .y = buffers_.up.data(), .bias = own_part(w.vector(kUpBias), Extent::kFfn)},
                 {}}};
  ops_.push_back(gate);
  LinearOp down = activated(spec, rows, h_.ffn, shard_.ffn());
  down.parts[0] = {.weight = &w.matrix(kDown), .y = dense, .bias = own_part(w.vector(kDownBias), Extent::kDim)};
  ops_.push_back(down);
  norm_columns(dense, rows, {NormKind::kRms, w.vector(kDensePostNorm), nullptr});
  add_norm({NormKind::kRms, w.vector(kExpertNorm), nullptr}, buffers_.x.data(), rows, false, buffers_.normed.data());
  ops_.push_back(ResizeOp{dense, experts, rows, 0, own});  // zeros
  add_experts(spec, w, rows);
  norm_columns(experts, rows, {NormKind::kRms, w.vector(kExpertPostNorm), nullptr});
  ops_.push_back(AddOp{.to = dense, .from = experts, .rows = rows, .cols = own, .to_stride = own, .from_stride = own});
  norm_columns(dense, rows, {spec.ffn_post_norm, w.vector(kFfnPostNorm), nullptr});
  AddOp add = branch_to_residual(spec, rows);
  add.from = dense;
  ops_.push_back(add);
}

}  // namespace yamata
