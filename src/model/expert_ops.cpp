// Mixtures of experts, with a shared expert or a dense feed-forward beside them.
#include <cmath>

#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// The logits of experts. Beside a dense feed-forward, the router has a norm of its own, whose weights are to be divided by the root of
/// their number.
void LayerOps::add_router(const LayerSpec& spec, const WeightSet& w, std::int64_t rows) {
  LinearOp logits{.x = buffers_.normed.data(), .rows = rows, .cols = h_.dim, .parts = {}, .add = false};
  if (spec.dense_beside) logits = residual_input(buffers_.x.data(), rows, w.vector(kRouterScale), false);
  logits.parts[0] = {.weight = &w.matrix(kRouter), .y = buffers_.router.data(), .bias = w.vector(kRouterBias)};
  ops_.push_back(logits);
  const float scale = 1.0f / std::sqrt(static_cast<float>(h_.dim));
  if (spec.dense_beside) ops_.push_back(ScaleOp{.x = buffers_.router.data(), .n = rows * spec.experts, .scale = scale});
}

/// What experts read of each token: the normalized input, or a product of that, which every member of a group computes.
LinearOp LayerOps::expert_input(const LayerSpec& spec, const WeightSet& w, std::int64_t rows) {
  LinearOp input{.x = buffers_.normed.data(), .rows = rows, .cols = h_.dim, .parts = {}, .add = false};
  if (spec.expert_dim > 0) {
    input.parts[0] = {.weight = &w.matrix(kExpertLatent), .y = buffers_.ffn_input.data()};
    ops_.push_back(input);
    input.x = buffers_.ffn_input.data(), input.cols = spec.expert_dim, input.parts = {};
  }
  input.rows = rows * spec.experts_used, input.x_of_tokens = true;
  input.input = buffers_.input.data();
  return input;
}

/// Adds the sums of experts' results, or a product of these.
void LayerOps::add_expert_sums(const LayerSpec& spec, const WeightSet& w, AddOp add) {
  if (spec.expert_dim == 0) return ops_.push_back(add);
  const std::int64_t own = shard_.rows(Extent::kExpertDim).count();
  add.to = buffers_.sums.data(), add.cols = add.to_stride = add.from_stride = own, add.scale = 1;
  ops_.push_back(ResizeOp{add.to, add.to, add.rows, 0, own});  // zeros
  ops_.push_back(add);
  add_to_residual(spec,
                  {.x = add.to,
                   .rows = add.rows,
                   .cols = spec.expert_dim,
                   .parts = {},
                   .add = true,
                   .input = shard_.whole() ? nullptr : buffers_.input.data(),
                   .share = shared(shard_.expert_dim())},
                  {&w.matrix(kExpertResult), nullptr}, {NormKind::kNone, nullptr, nullptr});
}

/// The input is normalized already. All members of a group choose the same experts.
void LayerOps::add_experts(const LayerSpec& spec, const WeightSet& w, std::int64_t rows) {
  const std::int64_t pairs = rows * spec.experts_used;
  const auto numbers = [&](std::int64_t i) { return reinterpret_cast<std::int32_t*>(buffers_.choice.data()) + i * pairs; };
  RouterOp router{.logits = buffers_.router.data(),
                  .rows = rows,
                  .kind = spec.router,
                  .normalize = spec.normalize_experts,
                  .scale = spec.experts_scale,
                  .bias = w.vector(kChoiceBias),
                  .groups = spec.expert_groups,
                  .groups_used = spec.expert_groups_used,
                  .choice = {.experts = spec.experts,
                             .used = spec.experts_used,
                             .weights = buffers_.choice.data(),
                             .pairs = numbers(1),
                             .tokens = numbers(2),
                             .chosen = numbers(3),
                             .first = reinterpret_cast<std::int32_t*>(buffers_.expert_begins.data())}};
  add_router(spec, w, rows);
  ops_.push_back(router);
  const auto part = [&](TensorRole role, TensorRole bias, Extent extent, std::int64_t all, const FloatBuffer& y) {
    return LinearOp::Part{.weight = w.copies(role), .y = y.data(), .bias = own_part(w.vector(bias), extent), .bias_stride = all};
  };
  LinearOp gate = expert_input(spec, w, rows);
  if (spec.gated) gate.parts[0] = part(kExpertGate, kExpertGateBias, Extent::kExpertFfn, spec.expert_ffn, buffers_.gate);
  gate.parts[1] = part(kExpertUp, kExpertUpBias, Extent::kExpertFfn, spec.expert_ffn, buffers_.up);
  LinearOp down = activated(spec, pairs, spec.expert_ffn, shard_.expert_ffn());
  down.parts[0] = part(kExpertDown, kExpertDownBias, Extent::kExpertDim, h_.expert_dim(), buffers_.branch);
  for (LinearOp* op : {&gate, &down}) op->experts = router.choice;
  ops_.push_back(gate);
  if (spec.weigh_inputs) weigh_inputs(router.choice, pairs);
  ops_.push_back(down);
  AddOp add = branch_to_residual(spec, rows);
  add.experts = router.choice, add.weighted = !spec.weigh_inputs;
  if (spec.dense_beside) add.to = expert_sum(rows), add.to_stride = add.cols;
  add_expert_sums(spec, w, add);
}

/// Multiplies gate and up with the weights of the experts, as if their input had been multiplied.
void LayerOps::weigh_inputs(const ExpertChoice& choice, std::int64_t pairs) {
  const std::int64_t cols = shard_.rows(Extent::kExpertFfn).count();
  for (const FloatBuffer* products : {&buffers_.gate, &buffers_.up})
    ops_.push_back(ScaleOp{.x = products->data(), .n = pairs * cols, .scale = 1, .experts = choice, .cols = cols});
}

/// A feed-forward network for all tokens in addition to the experts.
void LayerOps::add_shared_expert(const LayerSpec& spec, const WeightSet& w, std::int64_t rows) {
  float* score = buffers_.router.data() + rows * spec.experts;
  LinearOp gate{.x = buffers_.normed.data(), .rows = rows, .cols = h_.dim, .parts = {}, .add = false};
  if (spec.gated) gate.parts[0] = {.weight = &w.matrix(kSharedGate), .y = buffers_.gate.data()};
  gate.parts[1] = {.weight = &w.matrix(kSharedUp), .y = buffers_.up.data()};
  if (spec.shared_gate) gate.parts[2] = {.weight = &w.matrix(kSharedScore), .y = score};
  ops_.push_back(gate);
  LinearOp down = activated(spec, rows, spec.shared_ffn, shard_.shared_ffn());
  down.parts[0] = {.weight = &w.matrix(kSharedDown), .y = buffers_.branch.data()};
  ops_.push_back(down);
  AddOp add = branch_to_residual(spec, rows);
  if (spec.shared_gate) add.gate = score;
  ops_.push_back(add);
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
