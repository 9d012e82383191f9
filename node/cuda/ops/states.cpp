// Layers with states, and gates of heads.
#include <algorithm>
#include <cstddef>

#include "node/cuda/ops/ops.hpp"

namespace yamata::cuda {
namespace {

static_assert(sizeof(StateStep) == sizeof(DeviceStep) && offsetof(StateStep, aside) == offsetof(DeviceStep, aside) &&
                  offsetof(StateStep, columns) == offsetof(DeviceStep, columns) && StateStep::kZero == DeviceStep::kZero,
              "a device reads other steps than there are");

std::size_t count_of(std::int64_t floats) { return static_cast<std::size_t>(floats); }

/// Steps are the same in all layers.
const DeviceStep* steps_of(OpContext& c, const StatePlan& plan) { return reinterpret_cast<const DeviceStep*>(c.memory.once(plan.steps)); }

std::int64_t rows_of(const StatePlan& plan) {
  std::int64_t rows = 0;
  for (const StateStep& step : plan.steps) rows = std::max<std::int64_t>(rows, step.row + 1);
  return rows;
}

float* columns_of(OpContext& c, const StateShape& shape, const StatePlan& plan, const StateMemory& memory) {
  return c.memory.at(memory.columns, count_of((plan.inputs + StateShape::kColumns * plan.states) * shape.channels()));
}

/// When the host goes on, the device may not have computed it yet, so the unit notes only the end of the list.
template <class AnyRule>
DeltaRuleArgs args_of(OpContext& c, const AnyRule& op) {
  const StateShape& shape = op.shape;
  const StatePlan& plan = *op.plan;
  const std::int64_t rows = rows_of(plan);
  DeltaRuleArgs a{};
  a.inputs = c.memory.at(op.inputs, count_of(rows * shape.input_floats()));
  a.updates = c.memory.at(op.memory.updates, count_of(plan.inputs * shape.update_floats()));
  a.states = c.memory.at(op.memory.states, count_of(plan.states * shape.state_floats()));
  a.aside = reinterpret_cast<float*>(c.memory.scratch(Scratch::kPartials, count_of(plan.aside * shape.state_floats()) * sizeof(float)));
  a.steps = steps_of(c, plan), a.step_count = std::ssize(plan.steps), a.states_kept = plan.states;
  a.heads = shape.heads, a.key_heads = shape.key_heads, a.dim = shape.dim, a.key_dim = shape.key_size(), a.cyclic = shape.cyclic;
  a.first_head = shape.first_head, a.first_key_head = shape.first_key_head;
  a.layer_keys = shape.layer_keys(), a.sharing = shape.sharing();
  a.head_begin = op.which.begin, a.head_end = op.which.end_of(shape.heads);
  a.out = c.memory.at(op.out, count_of(rows * shape.values()));
  if (op.finished) c.finished = op.finished;
  return a;
}

}  // namespace

bool run(OpContext& c, const StateInputsOp& op) {
  const StateShape& shape = op.shape;
  const StatePlan& plan = *op.plan;
  const std::int64_t rows = rows_of(plan), channels = shape.channels(), taps = StateShape::kTaps;
  StateInputsArgs a{};
  a.x = c.memory.at(op.x, count_of(rows * channels)), a.channels = channels;
  a.gates = c.memory.at(op.gates, count_of(rows * op.gates_row));
  a.gates_row = op.gates_row, a.gates_before = op.gates_before;
  a.gates_each = op.gates_each, a.gates_step = op.gates_step, a.gates_decay = op.gates_decay;
  a.heads = shape.heads, a.key_heads = shape.key_heads, a.dim = shape.dim, a.key_dim = shape.key_size(), a.scan = shape.scan;
  a.key_begin = op.keys.begin, a.key_end = op.keys.end_of(shape.key_heads);
  a.head_begin = op.heads.begin, a.head_end = op.heads.end_of(shape.heads);
  for (std::size_t part = 0; part < op.taps.size(); ++part) {
    const std::int64_t own = part < 2 ? shape.keys() : shape.values();
    a.taps[part] = c.memory.at(op.taps[part], count_of(taps * own));
    if (op.offsets[part]) a.offsets[part] = c.memory.at(op.offsets[part], count_of(own));
  }
  a.rate = c.memory.at(op.rate, count_of(shape.heads)), a.bias = c.memory.at(op.bias, count_of(shape.heads));
  a.steps = steps_of(c, plan), a.step_count = std::ssize(plan.steps), a.inputs = plan.inputs;
  a.columns = columns_of(c, shape, plan, op.memory);
  a.updates = c.memory.at(op.memory.updates, count_of(plan.inputs * shape.update_floats()));
  a.out = c.memory.at(op.out, count_of(rows * shape.input_floats()));
  c.kernels().state_inputs(a, c.stream());
  c.check("inputs of a delta rule");
  return true;
}

bool run(OpContext& c, const DeltaRuleOp& op) {
  c.kernels().delta_rule(args_of(c, op), c.stream());
  c.check("a delta rule");
  return true;
}

bool run(OpContext& c, const ScanOp& op) {
  DeltaRuleArgs a = args_of(c, op);
  a.skip = c.memory.at(op.skip, count_of(op.shape.heads));
  c.kernels().scan(a, c.stream());
  c.check("a scan");
  return true;
}

bool run(OpContext& c, const GatedConvolutionOp& op) {
  const StateShape& shape = op.shape;
  const StatePlan& plan = *op.plan;
  const std::int64_t rows = rows_of(plan), channels = shape.channels();
  GatedConvolutionArgs a{};
  a.x = c.memory.at(op.x, count_of(3 * rows * channels)), a.channels = channels;
  a.taps = c.memory.at(op.taps, count_of(shape.taps * channels)), a.tap_count = shape.taps;
  a.steps = steps_of(c, plan), a.step_count = std::ssize(plan.steps), a.inputs = plan.inputs;
  a.begin = op.which.begin * shape.dim, a.end = op.which.end_of(shape.heads) * shape.dim;
  a.columns = columns_of(c, shape, plan, op.memory);
  a.out = c.memory.at(op.out, count_of(rows * channels));
  c.kernels().gated_convolution(a, c.stream());
  c.check("a gated convolution");
  if (op.finished) c.finished = op.finished;
  return true;
}

bool run(OpContext& c, const FarConvolutionOp& op) {
  const StatePlan& plan = *op.plan;
  const std::int64_t rows = rows_of(plan);
  FarConvolutionArgs a{};
  a.x = c.memory.at(op.x, count_of(rows * op.channels)), a.channels = op.channels;
  a.taps = c.memory.at(op.taps, count_of(op.tap_count * op.channels)), a.tap_count = op.tap_count, a.dilation = op.dilation;
  a.steps = steps_of(c, plan), a.step_count = std::ssize(plan.steps), a.inputs = plan.inputs;
  a.far_kept = plan.far_kept, a.far_columns = c.memory.once(plan.far_columns);
  a.columns = c.memory.at(op.columns, count_of((plan.inputs + plan.far_kept * plan.states) * op.channels));
  a.out = c.memory.at(op.out, count_of(rows * op.channels));
  c.kernels().convolve_far(a, c.stream());
  c.check("a convolution that reaches far back");
  return true;
}

bool run(OpContext& c, const LikenessOp& op) {
  const std::size_t floats = count_of(op.rows * op.cols);
  c.kernels().compare_rows(
      {c.memory.at(op.a, floats), c.memory.at(op.b, floats), op.rows, op.cols, op.scale, c.memory.at(op.out, count_of(op.rows))},
      c.stream());
  c.check("likeness of vectors");
  return true;
}

bool run(OpContext& c, const HeadGateOp& op) {
  const std::int64_t last = op.rows > 0 ? (op.rows - 1) * op.gate_row + (op.heads - 1) * op.gate_head + op.dim : 0;
  const float* norm = op.norm ? c.memory.at(op.norm, count_of(op.dim)) : nullptr;
  c.kernels().gate_heads(
      {c.memory.at(op.x, count_of(op.rows * op.heads * op.dim)), op.rows, op.heads, op.dim, c.memory.at(op.gate, count_of(last)),
       op.gate_row, op.gate_head, norm, op.epsilon, op.which.begin, op.which.end_of(op.heads), op.silu},
      c.stream());
  c.check("gates of heads");
  return true;
}

bool run(OpContext& c, const UngateOp& op) {
  const std::int64_t floats = op.rows * op.heads * op.dim;
  c.kernels().ungate({c.memory.at(op.x, count_of(2 * floats)), op.rows, op.heads, op.dim, c.memory.at(op.out, count_of(floats)),
                      op.which.begin, op.which.end_of(op.heads)},
                     c.stream());
  c.check("heads beside their gates");
  return true;
}

}  // namespace yamata::cuda
