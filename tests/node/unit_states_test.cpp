// The contract of compute units (unit_contract_test.cpp): layers with states.
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
    rate = some(shape.heads, 8), bias = some(shape.heads, 9), norm = some(shape.dim, 10), gate = some(kRows * shape.values(), 11);
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
                       .epsilon = 1e-5f},
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
  std::vector<float> x, gates, inputs, states, columns, updates, taps, rate, bias, norm, gate, out, pairs, apart;
  bool finished = false;
};

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

TEST_P(UnitContract, DeltaRule_hasTheBitsOfOneThread) {
  const StateShape together{.heads = 6, .key_heads = 2, .dim = 32}, in_turn{.heads = 6, .key_heads = 3, .dim = 16, .cyclic = true};
  for (const StateShape& shape : {together, in_turn, together.some(2, 5), in_turn.some(2, 4)}) {
    RuleScene scene(shape), expected(shape);
    run(unit(), scene.ops());
    run(reference(), expected.ops());
    EXPECT_TRUE(scene.finished);
    for (const auto& [name, found, right] : {std::tuple{"inputs", &scene.inputs, &expected.inputs},
                                             {"states", &scene.states, &expected.states},
                                             {"columns", &scene.columns, &expected.columns},
                                             {"updates", &scene.updates, &expected.updates},
                                             {"results", &scene.out, &expected.out},
                                             {"heads beside gates", &scene.apart, &expected.apart}})
      EXPECT_EQ(*found, *right) << name << " of " << shape.heads << " heads";
  }
}

}  // namespace
}  // namespace yamata::unit_contract
