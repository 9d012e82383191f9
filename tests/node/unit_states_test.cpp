// The contract of compute units (unit_contract_test.cpp): layers with states.
#include <cmath>

#include "node/state_op.hpp"
#include "tests/node/unit_contract.hpp"
#include "tests/node/unit_scene.hpp"

namespace yamata::unit_contract {
namespace {

constexpr std::int64_t kRows = 2, kInputs = 3, kStates = 2;

std::vector<float> some(std::int64_t count, unsigned seed) { return reals(static_cast<std::size_t>(count), seed); }

/// Two rows below one that an earlier run computed.
std::vector<StateStep> steps_of_rows() {
  const auto own = [](std::int32_t row) { return StateStep::own_column(row); };
  return {{.row = -1, .input = 0, .load = 1, .keep = -1, .aside = 0, .columns = {0, 8, 7, 6}},
          {.row = 0, .input = 1, .load = StateStep::kContinue, .keep = 0, .aside = -1, .columns = {own(0), 0, 8, 7}},
          {.row = 1, .input = 2, .load = kStates, .keep = -1, .aside = -1, .columns = {own(1), 0, 8, 7}}};
}

/// A layer's operations from the convolution to the gate of its results.
struct RuleScene {
  explicit RuleScene(const StateShape& its_shape) : shape(its_shape), steps(steps_of_rows()) {
    x = some(kRows * shape.channels(), 1), gates = some(kRows * 2 * shape.heads, 2), inputs = some(kRows * shape.input_floats(), 3);
    states = some(kStates * shape.state_floats(), 4), columns = some((kInputs + 3 * kStates) * shape.channels(), 5);
    updates = some(kInputs * shape.update_floats(), 6), taps = some(StateShape::kTaps * shape.channels(), 7);
    rate = some(shape.heads, 8), bias = some(shape.heads, 9), norm = some(shape.values(), 10), gate = some(kRows * shape.values(), 11);
    skip = some(shape.heads, 15), offsets = some(shape.channels(), 16);
    out = some(kRows * shape.values(), 12), pairs = some(2 * kRows * shape.values(), 13), apart = some(kRows * shape.values(), 14);
  }

  std::vector<Op> ops() {
    plan = {steps, kInputs, kStates, 1};
    const StateMemory memory{states.data(), columns.data(), updates.data()};
    const float* keys = taps.data() + StateShape::kTaps * shape.keys();
    return {StateInputsOp{.x = x.data(),
                          .gates = gates.data(),
                          .gates_row = 2 * shape.heads,
                          .gates_before = 0,
                          .gates_each = shape.heads,
                          .gates_step = 2 * shape.heads,
                          .gates_decay = shape.heads,
                          .shape = shape,
                          .taps = {taps.data(), keys, keys + StateShape::kTaps * shape.keys()},
                          .rate = rate.data(),
                          .bias = bias.data(),
                          .plan = &plan,
                          .memory = memory,
                          .out = inputs.data()},
            DeltaRuleOp{.inputs = inputs.data(), .shape = shape, .plan = &plan, .memory = memory, .out = out.data(), .finished = &finished},
            HeadGateOp{.x = out.data(),
                       .rows = kRows,
                       .heads = shape.heads,
                       .dim = shape.dim,
                       .gate = gate.data(),
                       .gate_row = shape.values(),
                       .gate_head = shape.dim,
                       .norm = norm.data(),
                       .epsilon = 1e-5f,
                       .silu = true},
            UngateOp{.x = pairs.data(), .rows = kRows, .heads = shape.heads, .dim = shape.dim, .out = apart.data()},
            HeadGateOp{.x = apart.data(),
                       .rows = kRows,
                       .heads = shape.heads,
                       .dim = shape.dim,
                       .gate = pairs.data() + shape.dim,
                       .gate_row = 2 * shape.values(),
                       .gate_head = 2 * shape.dim}};
  }

  StateShape shape;
  std::vector<StateStep> steps;
  StatePlan plan;
  std::vector<float> x, gates, inputs, states, columns, updates, taps, rate, bias, norm, gate, out, pairs, apart, skip, offsets;
  bool finished = false;
};

/// The same with a scan, whose results have a norm of heads that share keys.
std::vector<Op> scan_ops(RuleScene& s) {
  s.plan = {s.steps, kInputs, kStates, 1};
  const StateShape& shape = s.shape;
  const StateMemory memory{s.states.data(), s.columns.data(), s.updates.data()};
  const std::int64_t keys = shape.keys(), groups = shape.key_heads, width = shape.values() / groups;
  const auto taps = [&](std::int64_t before) { return s.taps.data() + StateShape::kTaps * before; };
  const auto offsets = [&](std::int64_t before) { return s.offsets.data() + before; };
  return {StateInputsOp{.x = s.x.data(),
                        .gates = s.gates.data(),
                        .gates_row = shape.heads,
                        .gates_before = 0,
                        .gates_each = shape.heads,
                        .gates_step = shape.heads,
                        .gates_decay = 0,
                        .shape = shape,
                        .taps = {taps(0), taps(keys), taps(2 * keys)},
                        .offsets = {offsets(0), offsets(keys), offsets(2 * keys)},
                        .rate = s.rate.data(),
                        .bias = s.bias.data(),
                        .plan = &s.plan,
                        .memory = memory,
                        .out = s.inputs.data()},
          ScanOp{.inputs = s.inputs.data(),
                 .shape = shape,
                 .plan = &s.plan,
                 .memory = memory,
                 .out = s.out.data(),
                 .finished = &s.finished,
                 .skip = s.skip.data()},
          HeadGateOp{.x = s.out.data(),
                     .rows = kRows,
                     .heads = shape.heads,
                     .dim = shape.dim,
                     .gate = s.gate.data(),
                     .gate_row = shape.values(),
                     .gate_head = shape.dim,
                     .silu = true},
          NormOp{.x = s.out.data(),
                 .rows = kRows * groups,
                 .cols = width,
                 .x_stride = width,
                 .weight = s.norm.data(),
                 .epsilon = 1e-5f,
                 .out = s.apart.data(),
                 .out_cols = width,
                 .out_stride = width,
                 .weight_rows = groups}};
}

struct ConvolutionScene {
  explicit ConvolutionScene(const StateShape& its_shape) : shape(its_shape), steps(steps_of_rows()) {
    x = some(kRows * 3 * shape.channels(), 1), taps = some(shape.taps * shape.channels(), 2);
    columns = some((kInputs + 3 * kStates) * shape.channels(), 3), out = some(kRows * shape.channels(), 4);
  }

  std::vector<Op> ops() {
    plan = {steps, kInputs, kStates, 1};
    return {GatedConvolutionOp{.x = x.data(),
                               .shape = shape,
                               .taps = taps.data(),
                               .plan = &plan,
                               .memory = {nullptr, columns.data(), nullptr},
                               .out = out.data(),
                               .finished = &finished}};
  }

  StateShape shape;
  std::vector<StateStep> steps;
  StatePlan plan;
  std::vector<float> x, taps, columns, out;
  bool finished = false;
};

TEST_P(UnitContract, GatedConvolution_hasTheBitsOfOneThread) {
  for (const std::int64_t heads : {1, 6, 40}) {
    for (const std::int64_t taps : {2, 3, 4}) {
      const StateShape shape{.heads = heads, .dim = StateShape::kBlock, .taps = taps};
      ConvolutionScene scene(shape), expected(shape);
      run(unit(), scene.ops());
      run(reference(), expected.ops());
      EXPECT_TRUE(scene.finished);
      EXPECT_EQ(scene.out, expected.out) << heads << " heads, " << taps << " columns";
      EXPECT_EQ(scene.columns, expected.columns) << heads << " heads, " << taps << " columns";
    }
  }
}

/// In the last of three tokens, of which the first was computed by an earlier run.
TEST(GatedConvolution, follows_its_definition) {
  const StateShape shape{.heads = 2, .dim = StateShape::kBlock, .taps = 3};
  const auto n = static_cast<std::size_t>(shape.channels());
  ConvolutionScene scene(shape);
  scene.steps = {{.row = 0, .input = 1, .load = 1, .keep = -1, .aside = -1, .columns = {StateStep::own_column(0), 0, 8, 7}},
                 {.row = 1,
                  .input = -1,
                  .load = StateStep::kContinue,
                  .keep = 0,
                  .aside = -1,
                  .columns = {StateStep::own_column(1), StateStep::own_column(0), 0, 8}}};
  const ConvolutionScene before = scene;
  run(*cpu_unit(cpu::Isa::kScalar, 1), scene.ops());
  const auto number = [](float x) { return static_cast<double>(x); };
  for (std::size_t c = 0; c < n; ++c) {
    const auto gated = [&](std::size_t row) { return number(before.x[3 * row * n + c]) * number(before.x[(3 * row + 2) * n + c]); };
    const double sum = number(before.taps[3 * c]) * number(before.columns[c]) + number(before.taps[3 * c + 1]) * gated(0) +
                       number(before.taps[3 * c + 2]) * gated(1);
    EXPECT_NEAR(number(scene.out[n + c]), number(before.x[4 * n + c]) * sum, 1e-5);
    EXPECT_NEAR(number(scene.columns[n + c]), gated(0), 1e-6) << "row 0 is input 1";
    EXPECT_NEAR(number(scene.columns[3 * n + c]), number(before.columns[c]), 1e-6) << "the oldest column before the end of state 0";
    EXPECT_NEAR(number(scene.columns[4 * n + c]), gated(0), 1e-6);
    EXPECT_NEAR(number(scene.columns[5 * n + c]), gated(1), 1e-6);
  }
}

void expect_equal(const RuleScene& scene, const RuleScene& expected) {
  EXPECT_TRUE(scene.finished);
  for (const auto& [name, found, right] : {std::tuple{"inputs", &scene.inputs, &expected.inputs},
                                           {"states", &scene.states, &expected.states},
                                           {"columns", &scene.columns, &expected.columns},
                                           {"updates", &scene.updates, &expected.updates},
                                           {"results", &scene.out, &expected.out},
                                           {"other results", &scene.apart, &expected.apart}})
    EXPECT_EQ(*found, *right) << name << " of " << scene.shape.heads << " heads";
}

TEST_P(UnitContract, DeltaRule_hasTheBitsOfOneThread) {
  const StateShape together{.heads = 6, .key_heads = 2, .dim = 32}, in_turn{.heads = 6, .key_heads = 3, .dim = 16, .cyclic = true};
  for (const StateShape& shape : {together, in_turn, together.some(2, 5), in_turn.some(2, 4)}) {
    RuleScene scene(shape), expected(shape);
    run(unit(), scene.ops());
    run(reference(), expected.ops());
    expect_equal(scene, expected);
  }
}

TEST_P(UnitContract, Scan_hasTheBitsOfOneThread) {
  const StateShape groups{.heads = 6, .key_heads = 3, .dim = 32, .key_dim = 16, .scan = true};
  for (const StateShape& shape :
       {groups, groups.some(2, 6), StateShape{.heads = 5, .key_heads = 1, .dim = 16, .key_dim = 48, .scan = true}}) {
    RuleScene scene(shape), expected(shape);
    run(unit(), scan_ops(scene));
    run(reference(), scan_ops(expected));
    expect_equal(scene, expected);
  }
}

/// The two rows below an earlier token, computed in double precision from the inputs on.
TEST(Scan, follows_its_definition) {
  const StateShape shape{.heads = 4, .key_heads = 2, .dim = 16, .key_dim = 32, .scan = true};
  RuleScene scene(shape);
  const RuleScene before = scene;
  run(*cpu_unit(cpu::Isa::kScalar, 1), scan_ops(scene));
  const auto number = [](float x) { return static_cast<double>(x); };
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  /// A channel of the convolution in row 0, whose columns are its own, input 0, and two of a state.
  const auto convolved = [&](std::int64_t channel) {
    const std::int64_t n = shape.channels();
    const auto kept = [&](std::int64_t column) { return number(before.columns[static_cast<std::size_t>(column * n + channel)]); };
    const auto tap = [&](std::int64_t i) { return number(before.taps[static_cast<std::size_t>(StateShape::kTaps * channel + i)]); };
    const double own = number(before.x[static_cast<std::size_t>(channel)]);
    return silu(tap(0) * kept(7) + tap(1) * kept(8) + tap(2) * kept(0) + tap(3) * own +
                number(before.offsets[static_cast<std::size_t>(channel)]));
  };
  const std::int64_t keys = shape.keys(), size = shape.key_size();
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    const auto at = static_cast<std::size_t>(head);
    const std::int64_t group = head / 2 * size;
    const double time = std::log1p(std::exp(number(before.gates[at]) + number(before.bias[at])));
    const double decay = std::exp(time * number(before.rate[at]));
    for (std::int64_t c = 0; c < shape.dim; ++c) {
      const std::int64_t column = head * shape.dim + c;
      const double value = convolved(2 * keys + column);
      double read = number(before.skip[at]) * value;
      for (std::int64_t i = 0; i < size; ++i) {
        // The earlier token's step, from state 1, is repeated first.
        const float* update = before.updates.data();
        const double past_decay = number(update[keys + shape.values() + head]),
                     past_time = number(update[keys + shape.values() + shape.heads + head]);
        const auto place = static_cast<std::size_t>(shape.state_floats() + column / 16 * 16 * size + i * 16 + column % 16);
        const double past =
            number(before.states[place]) * past_decay + number(update[group + i]) * number(update[keys + column]) * past_time;
        read += (past * decay + convolved(keys + group + i) * value * time) * convolved(group + i);
      }
      const double gate = number(before.gate[static_cast<std::size_t>(column)]);
      EXPECT_NEAR(number(scene.out[static_cast<std::size_t>(column)]), read * silu(gate), 1e-4 * (1 + std::abs(read))) << head << " " << c;
    }
  }
}

}  // namespace
}  // namespace yamata::unit_contract
