// Layers with a gated delta rule, and attention with an output gate (Qwen3-Next).
#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// Queries beside the gates of their heads, keys and values; and the layer's index, if it has one.
void LayerOps::add_gated_queries(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, LinearOp input) {
  input.parts = {{{.weight = &w.matrix(kQ), .y = buffers_.convolved.data()},
                  {.weight = &w.matrix(kK), .y = buffers_.k.data()},
                  {.weight = &w.matrix(kV), .y = buffers_.v.data()}}};
  if (spec.index_heads > 0) input.parts[3] = {.weight = &w.matrix(kIndexK), .y = buffers_.index_k.data()};
  if (spec.index_heads > 0 && cache.picked) input.parts[4] = {.weight = &w.matrix(kIndexQ), .y = buffers_.index_q.data()};
  ops_.push_back(input);
  ops_.push_back(UngateOp{
      .x = buffers_.convolved.data(), .rows = input.rows, .heads = shard_.query_heads(), .dim = h_.head_dim, .out = buffers_.q.data()});
  if (spec.index_heads > 0) add_block_index(spec, w, cache, input.rows);
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

/// The products of a rule's or a scan's input: queries, keys and values side by side, gates of the results, strengths and decays.
LinearOp LayerOps::rule_products(const LayerSpec& spec, const WeightSet& w, LinearOp input) const {
  const StateShape& shape = shard_.state();
  float *columns = buffers_.convolved.data(), *gates = buffers_.state_gates.data();
  const auto part = [&](TensorRole role, float* y, std::int64_t stride) {
    return LinearOp::Part{.weight = &w.matrix(role), .y = y, .stride = stride};
  };
  input.parts = {{part(kRuleQueries, columns, shape.channels()),
                  part(kRuleKeys, columns + shape.keys(), shape.channels()),
                  part(kRuleValues, columns + 2 * shape.keys(), shape.channels()),
                  part(kConvolvedGate, buffers_.convolved_gate.data(), 0),
                  {},
                  {}}};
  if (shape.scan) {
    input.parts[4] = part(kDecay, gates, 0);
  } else if (spec.joint_gates) {
    input.parts[4] = part(kStateGates, gates, 0);
  } else {
    input.parts[4] = part(kStrength, gates, 2 * shape.heads);
    input.parts[5] = part(kDecay, gates + shape.heads, 2 * shape.heads);
  }
  return input;
}

/// What the inputs of any rule have, for the heads on this rank; not yet where their gates and taps are.
StateInputsOp LayerOps::state_inputs(const WeightSet& w, const LayerCache& cache) const {
  StateInputsOp op{};
  op.x = buffers_.convolved.data(), op.gates = buffers_.state_gates.data();
  op.shape = shard_.state();
  op.rate = own_part(w.vector(kDecayRate), Extent::kStateHeads), op.bias = own_part(w.vector(kDecayBias), Extent::kStateHeads);
  op.plan = cache.plan, op.memory = cache.states;
  op.out = buffers_.state_inputs.data();
  return op;
}

/// In a joint matrix, the strengths of the heads that share a key head are followed by their decays.
StateInputsOp LayerOps::rule_inputs(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache) const {
  const StateShape &shape = shard_.state(), &all = h_.state;
  const std::int64_t each = spec.joint_gates ? shape.sharing() : shape.heads;
  const float* taps = w.vector(kConvolutionTaps);
  const auto taps_from = [&](std::int64_t column) { return taps + column * StateShape::kTaps; };
  const std::int64_t key = shard_.rows(Extent::kStateKeys).begin, value = shard_.rows(Extent::kStateValues).begin;
  StateInputsOp op = state_inputs(w, cache);
  op.gates_row = spec.joint_gates ? shard_.rows(Extent::kHeadGates).count() : 2 * shape.heads;
  op.gates_before = spec.joint_gates ? shape.first_head - shape.first_key_head * shape.sharing() : 0;
  op.gates_each = op.gates_decay = each, op.gates_step = 2 * each;
  op.taps = {taps_from(key), taps_from(all.keys() + key), taps_from(2 * all.keys() + value)};
  return op;
}

void LayerOps::add_rule(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, LinearOp input) {
  const StateShape& shape = shard_.state();
  ops_.push_back(rule_products(spec, w, input));
  ops_.push_back(rule_inputs(spec, w, cache));
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
                            .epsilon = h_.epsilon,
                            .silu = !spec.sigmoid_gate});
  add_state_out(spec, w, input.rows);
}

/// The product of what a layer has read from its state, or of that with a norm over all columns.
void LayerOps::add_state_out(const LayerSpec& spec, const WeightSet& w, std::int64_t rows, const float* norm) {
  add_to_residual(spec,
                  {.x = buffers_.attention.data(),
                   .rows = rows,
                   .cols = h_.state.values(),
                   .parts = {},
                   .add = true,
                   .norm = norm,
                   .epsilon = h_.epsilon,
                   .input = shard_.whole() && !norm ? nullptr : buffers_.input.data(),
                   .share = shared(shard_.state_values())},
                  {&w.matrix(kStateOut), nullptr}, {spec.attention_post_norm, w.vector(kAttentionPostNorm), nullptr});
}

}  // namespace yamata
