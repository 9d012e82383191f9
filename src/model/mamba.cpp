// Layers with a scan (Mamba-2), in Granite 4 and Nemotron-H.
#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// Their only gates are decays. In the file, values come before keys, and these before queries.
StateInputsOp LayerOps::scan_inputs(const WeightSet& w, const LayerCache& cache) const {
  const StateShape& all = h_.state;
  const std::int64_t key = all.values() + shard_.rows(Extent::kStateKeys).begin, value = shard_.rows(Extent::kStateValues).begin;
  const float *taps = w.vector(kConvolutionTaps), *bias = w.vector(kConvolutionBias);
  const auto taps_from = [&](std::int64_t column) { return taps + column * StateShape::kTaps; };
  const auto bias_from = [&](std::int64_t column) { return bias ? bias + column : nullptr; };
  StateInputsOp op = state_inputs(w, cache);
  op.gates_row = op.gates_each = op.gates_step = op.shape.heads;
  op.taps = {taps_from(all.keys() + key), taps_from(key), taps_from(value)};
  op.offsets = {bias_from(all.keys() + key), bias_from(key), bias_from(value)};
  return op;
}

/// The results of heads that share keys have a norm together. If these are all heads, it is a part of the next product.
void LayerOps::add_scan(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, LinearOp input) {
  const StateShape& shape = shard_.state();
  float* results = buffers_.attention.data();
  const float* norm = w.vector(kStateNorm);
  ops_.push_back(rule_products(spec, w, input));
  ops_.push_back(scan_inputs(w, cache));
  ops_.push_back(ScanOp{.inputs = buffers_.state_inputs.data(),
                        .shape = shape,
                        .plan = cache.plan,
                        .memory = cache.states,
                        .out = results,
                        .finished = cache.finished,
                        .skip = own_part(w.vector(kStateSkip), Extent::kStateHeads)});
  ops_.push_back(HeadGateOp{.x = results,
                            .rows = input.rows,
                            .heads = shape.heads,
                            .dim = shape.dim,
                            .gate = buffers_.convolved_gate.data(),
                            .gate_row = shape.values(),
                            .gate_head = shape.dim,
                            .silu = true});
  if (h_.state.key_heads == 1) return add_state_out(spec, w, input.rows, norm);
  const std::int64_t groups = shape.key_heads, width = shape.values() / groups;
  ops_.push_back(NormOp{.x = results,
                        .rows = input.rows * groups,
                        .cols = width,
                        .x_stride = width,
                        .weight = own_part(norm, Extent::kStateValues),
                        .epsilon = h_.epsilon,
                        .out = results,
                        .out_cols = width,
                        .out_stride = width,
                        .weight_rows = groups});
  add_state_out(spec, w, input.rows);
}

}  // namespace yamata
