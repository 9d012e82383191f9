// The contract of compute units (unit_contract_test.cpp): n-gram embeddings.
#include <algorithm>
#include <cmath>

#include "tests/node/unit_contract.hpp"
#include "tests/node/unit_scene.hpp"

namespace yamata::unit_contract {
namespace {

/// Three rows, of which the second follows the first, after an earlier token that is computed again; taps reach five columns back.
struct FarScene {
  static constexpr std::int64_t kTaps = 3, kDilation = 2, kRows = 3;
  static constexpr std::int32_t kInputs = 4, kStates = 2, kKept = 4;

  explicit FarScene(std::int64_t its_channels) : channels(its_channels) {
    const auto some = [&](std::int64_t n, unsigned seed) { return reals(static_cast<std::size_t>(n), seed); };
    x = some(kRows * channels, 1), taps = some(kTaps * channels, 2);
    columns = some((kInputs + kKept * kStates) * channels, 3), out = some(kRows * channels, 4);
    const auto own = [](std::int32_t row) { return StateStep::own_column(row); };
    steps = {{.row = -1, .input = 2, .load = 1, .keep = -1, .aside = -1, .columns = {}},
             {.row = 0, .input = 1, .load = StateStep::kContinue, .keep = -1, .aside = -1, .columns = {}},
             {.row = 1, .input = -1, .load = StateStep::kContinue, .keep = 0, .aside = -1, .columns = {}},
             {.row = 2, .input = 3, .load = StateStep::kZero, .keep = -1, .aside = -1, .columns = {}}};
    constexpr std::int32_t kNone = StateStep::kZero;
    far = {2, 11, 10, 9, 8, own(0), 2, 11, 10, 9, own(1), own(0), 2, 11, 10, own(2), kNone, kNone, kNone, kNone};
  }
  std::vector<Op> ops() {
    plan = {.steps = steps, .inputs = kInputs, .states = kStates, .aside = 0, .far_kept = kKept, .far_columns = far};
    return {FarConvolutionOp{.x = x.data(),
                             .channels = channels,
                             .tap_count = kTaps,
                             .dilation = kDilation,
                             .taps = taps.data(),
                             .plan = &plan,
                             .columns = columns.data(),
                             .out = out.data()}};
  }

  std::int64_t channels;
  std::vector<StateStep> steps;
  std::vector<std::int32_t> far;
  StatePlan plan;
  std::vector<float> x, taps, columns, out;
};

TEST_P(UnitContract, FarConvolution_hasTheBitsOfOneThread) {
  for (const std::int64_t channels : {1, 48, 600}) {
    FarScene scene(channels), expected(channels);
    run(unit(), scene.ops());
    run(reference(), expected.ops());
    EXPECT_EQ(scene.out, expected.out) << channels;
    EXPECT_EQ(scene.columns, expected.columns) << channels;
  }
}

TEST(FarConvolution, follows_its_definition) {
  FarScene scene(5);
  const FarScene before = scene;
  run(*cpu_unit(cpu::Isa::kScalar, 1), scene.ops());
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto number = [](float x) { return static_cast<double>(x); };
  for (std::size_t c = 0; c < 5; ++c) {
    const auto kept = [&](std::size_t column) { return number(before.columns[5 * column + c]); };
    const auto row = [&](std::size_t r) { return number(before.x[5 * r + c]); };
    const auto tap = [&](std::size_t t) { return number(before.taps[3 * c + t]); };
    EXPECT_NEAR(number(scene.out[c]), silu(tap(0) * kept(9) + tap(1) * kept(11) + tap(2) * row(0)), 1e-5);
    EXPECT_NEAR(number(scene.out[5 + c]), silu(tap(0) * kept(10) + tap(1) * kept(2) + tap(2) * row(1)), 1e-5);
    EXPECT_NEAR(number(scene.out[10 + c]), silu(tap(2) * row(2)), 1e-5) << "a text's first token";
    const auto now = [&](std::size_t column) { return scene.columns[5 * column + c]; };
    EXPECT_EQ(now(1), before.x[c]);
    EXPECT_EQ(now(3), before.x[10 + c]);
    EXPECT_EQ(now(7), before.x[5 + c]) << "the last column before the end of state 0";
    EXPECT_EQ(now(6), before.x[c]);
    EXPECT_EQ(now(5), before.columns[5 * 2 + c]);
    EXPECT_EQ(now(4), before.columns[5 * 11 + c]);
  }
}

TEST_P(UnitContract, Likeness_hasTheBitsOfOneThread) {
  constexpr std::int64_t kRows = 37, kCols = 100;
  const std::vector<float> a = reals(kRows * kCols, 1), b = reals(kRows * kCols, 2);
  std::vector<float> found(kRows), expected(kRows);
  run(unit(), std::vector<Op>{LikenessOp{a.data(), b.data(), kRows, kCols, 0.1f, found.data()}});
  run(reference(), std::vector<Op>{LikenessOp{a.data(), b.data(), kRows, kCols, 0.1f, expected.data()}});
  EXPECT_EQ(found, expected);
}

TEST(Likeness, IsTheRootOfAProduct_withItsSign) {
  const std::vector<float> a{1, 2, 3, 0, 1, 2, 0, 0, 0}, b{4, 5, 6, 1, -4, -5, 1, 2, 3};
  std::vector<float> out(3);
  run(*cpu_unit(cpu::Isa::kScalar, 1), std::vector<Op>{LikenessOp{a.data(), b.data(), 3, 3, 0.5f, out.data()}});
  EXPECT_FLOAT_EQ(out[0], 4);
  EXPECT_FLOAT_EQ(out[1], -std::sqrt(7.0f));
  EXPECT_EQ(out[2], 0);
}

}  // namespace
}  // namespace yamata::unit_contract
