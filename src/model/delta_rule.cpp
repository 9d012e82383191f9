// Layers with a gated delta rule, and attention with an output gate (Qwen3-Next).
#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// Queries beside the gates of their heads, keys and values.
void LayerOps::add_gated_queries(const WeightSet& w, LinearOp input) {
  input.parts = {{{.weight = &w.matrix(kQ), .y = buffers_.convolved.data()},
                  {.weight = &w.matrix(kK), .y = buffers_.k.data()},
                  {.weight = &w.matrix(kV), .y = buffers_.v.data()}}};
  ops_.push_back(input);
  ops_.push_back(UngateOp{
      .x = buffers_.convolved.data(), .rows = input.rows, .heads = shard_.query_heads(), .dim = h_.head_dim, .out = buffers_.q.data()});
}

void LayerOps::add_gate(std::int64_t rows) {
  const std::int64_t heads = shard_.query_heads();
  ops_.push_back(HeadGateOp{.x = buffers_.attention.data(),
                            .rows = rows,
                            .heads = heads,
                            .dim = h_.head_dim,
                            .gate = buffers_.convolved.data() + h_.head_dim,
                            .gate_row = heads * 2 * h_.head_dim,
                            .gate_head = 2 * h_.head_dim});
}

void LayerOps::add_rule(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, LinearOp input) {
  const StateShape& shape = h_.state;
  float* gates = buffers_.state_gates.data();
  const LinearOp::Part joint{.weight = &w.matrix(kStateGates), .y = gates};
  const LinearOp::Part strength{.weight = &w.matrix(kStrength), .y = gates, .stride = 2 * shape.heads};
  LinearOp decay = input;
  input.parts = {{{.weight = &w.matrix(kConvolved), .y = buffers_.convolved.data()},
                  {.weight = &w.matrix(kConvolvedGate), .y = buffers_.convolved_gate.data()},
                  spec.joint_gates ? joint : strength}};
  ops_.push_back(input);
  decay.parts[0] = {.weight = &w.matrix(kDecay), .y = gates + shape.heads, .stride = 2 * shape.heads};
  if (!spec.joint_gates) ops_.push_back(decay);
  const std::int64_t each = spec.joint_gates ? shape.heads / shape.key_heads : shape.heads;
  ops_.push_back(StateInputsOp{.x = buffers_.convolved.data(),
                               .gates = gates,
                               .gates_each = each,
                               .gates_step = 2 * each,
                               .gates_decay = each,
                               .shape = shape,
                               .taps = w.vector(kConvolutionTaps),
                               .rate = w.vector(kDecayRate),
                               .bias = w.vector(kDecayBias),
                               .plan = cache.plan,
                               .memory = cache.states,
                               .out = buffers_.state_inputs.data()});
  ops_.push_back(DeltaRuleOp{.inputs = buffers_.state_inputs.data(),
                             .shape = shape,
                             .plan = cache.plan,
                             .memory = cache.states,
                             .out = buffers_.attention.data(),
                             .finished = cache.finished});
  ops_.push_back(HeadGateOp{.x = buffers_.attention.data(),
                            .rows = input.rows,
                            .heads = shape.heads,
                            .dim = shape.dim,
                            .gate = buffers_.convolved_gate.data(),
                            .gate_row = shape.values(),
                            .gate_head = shape.dim,
                            .norm = w.vector(kStateNorm),
                            .epsilon = h_.epsilon});
  add_to_residual(spec, {.x = buffers_.attention.data(), .rows = input.rows, .cols = shape.values(), .parts = {}, .add = true},
                  {&w.matrix(kStateOut), nullptr}, {spec.attention_post_norm, w.vector(kAttentionPostNorm), nullptr});
}

}  // namespace yamata
