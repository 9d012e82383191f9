// Layers with states, and gates of heads.
#include <algorithm>
#include <array>

#include "tests/node/cuda/scenes.hpp"

namespace yamata::cuda {
namespace {

constexpr std::int64_t kRows = 5, kInputs = 6, kStates = 3, kAside = 1;

/// A tree of rows and of an earlier token, from no state, one of memory, one that was put aside, and one that this run keeps.
const std::vector<StateStep>& tree_of_steps() {
  constexpr std::int32_t kZero = StateStep::kZero, kColumns = kInputs;  // those before the end of state 0
  const auto own = [](std::int32_t row) { return StateStep::own_column(row); };
  static const std::vector<StateStep> steps{
      {.row = 0, .input = 1, .load = kZero, .keep = -1, .aside = 0, .columns = {own(0), kZero, kZero, kZero}},
      {.row = 1, .input = -1, .load = StateStep::kContinue, .keep = 1, .aside = -1, .columns = {own(1), own(0), kZero, kZero}},
      {.row = -1, .input = 2, .load = kStates, .keep = -1, .aside = -1, .columns = {2, own(0), kZero, kZero}},
      {.row = 2, .input = 3, .load = StateStep::kContinue, .keep = -1, .aside = -1, .columns = {own(2), 2, own(0), kZero}},
      {.row = 3, .input = 4, .load = 0, .keep = -1, .aside = -1, .columns = {own(3), kColumns + 2, kColumns + 1, kColumns}},
      {.row = 4, .input = -1, .load = 1, .keep = 2, .aside = -1, .columns = {own(4), own(1), own(0), kZero}}};
  return steps;
}

/// Memory of a layer, on the device and of a core.
struct LayerMemory {
  LayerMemory(const TestDevice& device, const StateShape& shape)
      : states(reals(kStates * shape.state_floats(), 1)),
        columns(reals((kInputs + 3 * kStates) * shape.channels(), 2)),
        updates(reals(kInputs * shape.update_floats(), 3)),
        device_states(device.array(states)),
        device_columns(device.array(columns)),
        device_updates(device.array(updates)) {}
  StateMemory memory() { return {states.data(), columns.data(), updates.data()}; }
  bool equal() const {
    return cpu::bits(device_states.values()) == cpu::bits(states) && cpu::bits(device_columns.values()) == cpu::bits(columns) &&
           cpu::bits(device_updates.values()) == cpu::bits(updates);
  }
  std::vector<float> states, columns, updates;
  Array<float> device_states, device_columns, device_updates;
};

Array<DeviceStep> device_steps(const TestDevice& device) {
  std::vector<DeviceStep> steps;
  for (const StateStep& step : tree_of_steps()) {
    DeviceStep same{step.row, step.input, step.load, step.keep, step.aside, {}};
    std::ranges::copy(step.columns, same.columns);
    steps.push_back(same);
  }
  return device.array(steps);
}

/// For some key heads and heads of `shape`; those of a member of a group, if `before` of its first key head's are on another.
bool inputs_hold(const TestDevice& device, const StateShape& shape, OpRange keys, OpRange heads, std::int64_t before) {
  LayerMemory layer(device, shape);
  const std::int64_t each = before > 0 ? 2 : shape.heads, decay = shape.scan ? 0 : each;
  const std::int64_t row = before > 0 ? 4 * ((shape.heads + before) / 2 + 1) : shape.heads + decay;
  const std::vector<float> x = reals(kRows * shape.channels(), 4);
  std::vector<float> gates = reals(kRows * row, 5), out = reals(kRows * shape.input_floats(), 6);
  gates[static_cast<std::size_t>(each)] = 30;  // where the logarithm of the decay's gate is not computed
  const std::array<std::vector<float>, 3> taps{reals(shape.keys() * 4, 7), reals(shape.keys() * 4, 8), reals(shape.values() * 4, 9)};
  const std::array<std::vector<float>, 3> offsets{reals(shape.keys(), 12), reals(shape.keys(), 13), reals(shape.values(), 14)};
  const std::vector<float> rate = reals(shape.heads, 10), bias = reals(shape.heads, 11);
  const Array<float> device_x = device.array(x), device_gates = device.array(gates), device_out = device.array(out),
                     device_rate = device.array(rate), device_bias = device.array(bias), queries = device.array(taps[0]),
                     its_keys = device.array(taps[1]), values = device.array(taps[2]), offset_queries = device.array(offsets[0]),
                     offset_keys = device.array(offsets[1]), offset_values = device.array(offsets[2]);
  const Array<DeviceStep> steps = device_steps(device);
  StateInputsArgs a{};
  a.x = device_x.data(), a.channels = shape.channels(), a.gates = device_gates.data();
  a.gates_row = row, a.gates_before = before, a.gates_each = each, a.gates_step = 2 * each, a.gates_decay = decay;
  a.heads = shape.heads, a.key_heads = shape.key_heads, a.dim = shape.dim, a.key_dim = shape.key_size(), a.scan = shape.scan;
  a.key_begin = keys.begin, a.key_end = keys.end, a.head_begin = heads.begin, a.head_end = heads.end;
  a.taps[0] = queries.data(), a.taps[1] = its_keys.data(), a.taps[2] = values.data();
  if (shape.scan) a.offsets[0] = offset_queries.data(), a.offsets[1] = offset_keys.data(), a.offsets[2] = offset_values.data();
  a.rate = device_rate.data(), a.bias = device_bias.data();
  a.steps = steps.data(), a.step_count = std::ssize(tree_of_steps()), a.inputs = kInputs;
  a.columns = layer.device_columns.data(), a.updates = layer.device_updates.data(), a.out = device_out.data();
  device.kernels().state_inputs(a, device.stream());
  device.finish();
  const StatePlan plan{tree_of_steps(), kInputs, kStates, kAside};
  const auto offset = [&](std::size_t part) { return shape.scan ? offsets[part].data() : nullptr; };
  compute_on_core(StateInputsOp{.x = x.data(),
                                .gates = gates.data(),
                                .gates_row = row,
                                .gates_before = before,
                                .gates_each = each,
                                .gates_step = 2 * each,
                                .gates_decay = decay,
                                .shape = shape,
                                .taps = {taps[0].data(), taps[1].data(), taps[2].data()},
                                .offsets = {offset(0), offset(1), offset(2)},
                                .rate = rate.data(),
                                .bias = bias.data(),
                                .plan = &plan,
                                .memory = layer.memory(),
                                .out = out.data(),
                                .keys = keys,
                                .heads = heads});
  return layer.equal() && cpu::bits(device_out.values()) == cpu::bits(out);
}

bool rule_holds(const TestDevice& device, const StateShape& shape, OpRange heads) {
  LayerMemory layer(device, shape);
  const std::vector<float> inputs = reals(kRows * shape.input_floats(), 4);
  const std::vector<float> skip = reals(shape.heads, 6);
  std::vector<float> out = reals(kRows * shape.values(), 5);
  const Array<float> device_inputs = device.array(inputs), device_out = device.array(out), device_skip = device.array(skip);
  const Array<float> aside = device.array(static_cast<std::size_t>(kAside * shape.state_floats()), 7.0f);
  const Array<DeviceStep> steps = device_steps(device);
  DeltaRuleArgs a{};
  a.inputs = device_inputs.data(), a.updates = layer.device_updates.data(), a.states = layer.device_states.data();
  a.aside = aside.data(), a.steps = steps.data(), a.step_count = std::ssize(tree_of_steps()), a.states_kept = kStates;
  a.heads = shape.heads, a.key_heads = shape.key_heads, a.dim = shape.dim, a.key_dim = shape.key_size(), a.cyclic = shape.cyclic;
  a.first_head = shape.first_head, a.first_key_head = shape.first_key_head;
  a.layer_keys = shape.layer_keys(), a.sharing = shape.sharing();
  a.head_begin = heads.begin, a.head_end = heads.end, a.out = device_out.data(), a.skip = device_skip.data();
  (shape.scan ? device.kernels().scan : device.kernels().delta_rule)(a, device.stream());
  device.finish();
  const StatePlan plan{tree_of_steps(), kInputs, kStates, kAside};
  if (shape.scan)
    compute_on_core(ScanOp{inputs.data(), shape, &plan, layer.memory(), out.data(), nullptr, heads, skip.data()});
  else
    compute_on_core(DeltaRuleOp{inputs.data(), shape, &plan, layer.memory(), out.data(), nullptr, heads});
  return layer.equal() && cpu::bits(device_out.values()) == cpu::bits(out);
}

bool convolution_holds(const TestDevice& device, const StateShape& shape, OpRange heads) {
  LayerMemory layer(device, shape);
  const std::vector<float> x = reals(kRows * 3 * shape.channels(), 4), taps = reals(shape.taps * shape.channels(), 5);
  std::vector<float> out = reals(kRows * shape.channels(), 6);
  const Array<float> device_x = device.array(x), device_taps = device.array(taps), device_out = device.array(out);
  const Array<DeviceStep> steps = device_steps(device);
  device.kernels().gated_convolution(
      {device_x.data(), device_taps.data(), steps.data(), std::ssize(tree_of_steps()), kInputs, shape.channels(), shape.taps,
       heads.begin * shape.dim, heads.end * shape.dim, layer.device_columns.data(), device_out.data()},
      device.stream());
  device.finish();
  const StatePlan plan{tree_of_steps(), kInputs, kStates, kAside};
  compute_on_core(GatedConvolutionOp{.x = x.data(),
                                     .shape = shape,
                                     .taps = taps.data(),
                                     .plan = &plan,
                                     .memory = layer.memory(),
                                     .out = out.data(),
                                     .finished = nullptr,
                                     .which = heads});
  return layer.equal() && cpu::bits(device_out.values()) == cpu::bits(out);
}

bool far_convolution_holds(const TestDevice& device, std::int64_t channels) {
  constexpr std::int64_t kTaps = 3, kDilation = 2, kKept = 5;  // a column more than the taps reach
  constexpr std::int32_t kZero = StateStep::kZero;
  const auto own = [](std::int32_t row) { return StateStep::own_column(row); };
  const std::vector<std::int32_t> far{own(0), kZero,  kZero,  kZero, kZero, kZero,  // the steps' own columns, and those before them
                                      own(1), own(0), kZero,  kZero, kZero, kZero,  //
                                      2,      own(0), kZero,  kZero, kZero, kZero,  //
                                      own(2), 2,      own(0), kZero, kZero, kZero,  //
                                      own(3), 10,     9,      8,     7,     6,      // those before the end of state 0
                                      own(4), own(1), own(0), kZero, kZero, kZero};
  const std::vector<float> x = reals(kRows * channels, 1), taps = reals(kTaps * channels, 2);
  std::vector<float> columns = reals((kInputs + kKept * kStates) * channels, 3), out = reals(kRows * channels, 4);
  const Array<float> device_x = device.array(x), device_taps = device.array(taps), device_columns = device.array(columns),
                     device_out = device.array(out);
  const Array<DeviceStep> steps = device_steps(device);
  const Array<std::int32_t> device_far = device.array(far);
  device.kernels().convolve_far({device_x.data(), channels, device_taps.data(), kTaps, kDilation, steps.data(), std::ssize(tree_of_steps()),
                                 kInputs, kKept, device_far.data(), device_columns.data(), device_out.data()},
                                device.stream());
  device.finish();
  const StatePlan plan{tree_of_steps(), kInputs, kStates, kAside, kKept, far};
  compute_on_core(FarConvolutionOp{x.data(), channels, kTaps, kDilation, taps.data(), &plan, columns.data(), out.data()});
  return cpu::bits(device_columns.values()) == cpu::bits(columns) && cpu::bits(device_out.values()) == cpu::bits(out);
}

bool likeness_holds(const TestDevice& device, std::int64_t rows, std::int64_t cols) {
  std::vector<float> a = reals(rows * cols, 1), out = reals(rows, 3);
  const std::vector<float> b = reals(rows * cols, 2);
  std::fill_n(a.begin(), cols, 0.0f);  // which has no sign
  const Array<float> device_a = device.array(a), device_b = device.array(b), device_out = device.array(out);
  device.kernels().compare_rows({device_a.data(), device_b.data(), rows, cols, 0.1f, device_out.data()}, device.stream());
  device.finish();
  compute_on_core(LikenessOp{a.data(), b.data(), rows, cols, 0.1f, out.data()});
  return cpu::bits(device_out.values()) == cpu::bits(out);
}

bool gates_hold(const TestDevice& device, std::int64_t dim, bool normed, bool silu) {
  constexpr std::int64_t kHeads = 3;
  std::vector<float> x = reals(kRows * kHeads * dim, 1);
  const std::vector<float> gate = reals(kRows * kHeads * 2 * dim, 2), norm = reals(dim, 3);
  const Array<float> device_x = device.array(x), device_gate = device.array(gate), device_norm = device.array(norm);
  device.kernels().gate_heads({device_x.data(), kRows, kHeads, dim, device_gate.data() + dim, 2 * kHeads * dim, 2 * dim,
                               normed ? device_norm.data() : nullptr, 1e-5f, 1, 3, silu},
                              device.stream());
  device.finish();
  compute_on_core(HeadGateOp{.x = x.data(),
                             .rows = kRows,
                             .heads = kHeads,
                             .dim = dim,
                             .gate = gate.data() + dim,
                             .gate_row = 2 * kHeads * dim,
                             .gate_head = 2 * dim,
                             .norm = normed ? norm.data() : nullptr,
                             .epsilon = 1e-5f,
                             .which = {1, 3},
                             .silu = silu});
  return cpu::bits(device_x.values()) == cpu::bits(x);
}

bool ungate_holds(const TestDevice& device, std::int64_t dim) {
  constexpr std::int64_t kHeads = 3;
  const std::vector<float> x = reals(kRows * kHeads * 2 * dim, 1);
  std::vector<float> out = reals(kRows * kHeads * dim, 2);
  const Array<float> device_x = device.array(x), device_out = device.array(out);
  device.kernels().ungate({device_x.data(), kRows, kHeads, dim, device_out.data(), 1, 3}, device.stream());
  device.finish();
  compute_on_core(UngateOp{.x = x.data(), .rows = kRows, .heads = kHeads, .dim = dim, .out = out.data(), .which = {1, 3}});
  return cpu::bits(device_out.values()) == cpu::bits(out);
}

}  // namespace

std::vector<Scene> state_scenes() {
  std::vector<Scene> scenes;
  for (const std::int64_t dim : {16, 48}) {
    const StateShape together{.heads = 6, .key_heads = 2, .dim = dim}, in_turn{.heads = 6, .key_heads = 4, .dim = dim, .cyclic = true};
    for (const StateShape& shape : {together, together.some(1, 6), in_turn, in_turn.some(1, 4), in_turn.some(3, 5)}) {
      const std::int64_t keys = shape.key_heads, heads = shape.heads;
      scenes.push_back(
          {"inputs of states", [=](const TestDevice& device) {
             return inputs_hold(device, shape, {0, keys}, {0, heads}, 0) && inputs_hold(device, shape, {keys - 1, keys}, {1, heads}, 1);
           }});
      scenes.push_back({"delta rule", [=](const TestDevice& device) {
                          return rule_holds(device, shape, {0, heads}) && rule_holds(device, shape, {1, 2});
                        }});
    }
    const StateShape scan{.heads = 6, .key_heads = 2, .dim = dim, .key_dim = 80 - dim, .scan = true};
    for (const StateShape& shape : {scan, scan.some(1, 5), scan.some(3, 6)}) {
      const std::int64_t keys = shape.key_heads, heads = shape.heads;
      scenes.push_back(
          {"inputs of a scan", [=](const TestDevice& device) {
             return inputs_hold(device, shape, {0, keys}, {0, heads}, 0) && inputs_hold(device, shape, {keys - 1, keys}, {1, heads}, 0);
           }});
      scenes.push_back({"scan", [=](const TestDevice& device) {
                          return rule_holds(device, shape, {0, heads}) && rule_holds(device, shape, {1, 2});
                        }});
    }
    for (const std::int64_t taps : {2, 3, 4}) {
      scenes.push_back({"gated convolution", [=](const TestDevice& device) {
                          const StateShape shape{.heads = 5, .dim = dim, .taps = taps};
                          return convolution_holds(device, shape, {0, 5}) && convolution_holds(device, shape, {1, 3});
                        }});
    }
    scenes.push_back(
        {"convolution that reaches far back", [=](const TestDevice& device) { return far_convolution_holds(device, dim + 1); }});
    scenes.push_back({"likeness", [=](const TestDevice& device) { return likeness_holds(device, 37, 2 * dim + 5); }});
    for (const auto& [normed, silu] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
      scenes.push_back({"gates of heads",
                        [=, normed = normed, silu = silu](const TestDevice& device) { return gates_hold(device, dim, normed, silu); }});
    }
    scenes.push_back({"heads beside gates", [=](const TestDevice& device) { return ungate_holds(device, dim); }});
  }
  return scenes;
}

}  // namespace yamata::cuda
