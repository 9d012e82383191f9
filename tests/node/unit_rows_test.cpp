// The contract of compute units (unit_contract_test.cpp): operations that some families need.
#include "tests/node/unit_contract.hpp"
#include "tests/node/unit_scene.hpp"

namespace yamata::unit_contract {
namespace {

TEST_P(UnitContract, Resize_copiesWhatFitsAndFillsWithZeros) {
  for (const auto& [from_cols, to_cols] : {std::pair{100, 128}, {24, 32}, {128, 100}, {5, 5}}) {
    for (const int rows : {1, 2, 7}) {
      const std::vector<float> from = reals(static_cast<std::size_t>(rows * from_cols), 4);
      std::vector<float> to(static_cast<std::size_t>(rows * to_cols), -1), expected(to.size());
      run(unit(), std::vector<Op>{ResizeOp{from.data(), to.data(), rows, from_cols, to_cols}});
      for (int row = 0; row < rows; ++row) {
        std::copy_n(from.begin() + row * from_cols, std::min(from_cols, to_cols), expected.begin() + row * to_cols);
      }
      EXPECT_EQ(to, expected) << rows << " rows of " << from_cols << " to " << to_cols;
    }
  }
}

TEST_P(UnitContract, Norm_takesItsRowOfTheWeights) {
  constexpr std::int64_t kHeads = 3, kSize = 24, kTokens = 4;
  const std::vector<float> x = reals(kTokens * kHeads * kSize, 5), weight = reals(kHeads * kSize, 6);
  const auto normed = [&](std::int64_t head, std::int64_t heads, std::vector<float> y) {
    run(unit(), std::vector<Op>{NormOp{.x = y.data(),
                                       .rows = std::ssize(y) / kSize,
                                       .cols = kSize,
                                       .x_stride = kSize,
                                       .weight = weight.data() + head * kSize,
                                       .centered = true,
                                       .epsilon = 1e-5f,
                                       .out = y.data(),
                                       .out_cols = kSize,
                                       .out_stride = kSize,
                                       .weight_rows = heads}});
    return y;
  };
  const std::vector<float> together = normed(0, kHeads, x);
  for (std::int64_t row = 0; row < kTokens * kHeads; ++row) {
    const auto begin = x.begin() + row * kSize, found = together.begin() + row * kSize;
    EXPECT_EQ(std::vector(found, found + kSize), normed(row % kHeads, 1, std::vector(begin, begin + kSize))) << row;
  }
}

TEST_P(UnitContract, ARowThatIsAddedToSeveral_isAddedToEach) {
  constexpr std::int64_t kEach = 3, kTokens = 4, kCols = 100;
  const std::vector<float> x = reals(kTokens * kEach * kCols, 5), from = reals(kTokens * kCols, 6), gates = reals(kTokens * kEach, 7);
  const auto added = [&](std::int64_t first, std::int64_t rows, std::int64_t each) {
    std::vector<float> y(x.begin() + first * kCols, x.begin() + (first + rows) * kCols);
    run(unit(), std::vector<Op>{AddOp{.to = y.data(),
                                      .from = from.data() + first / kEach * kCols,
                                      .rows = rows,
                                      .cols = kCols,
                                      .to_stride = kCols,
                                      .from_stride = kCols,
                                      .scale = 2,
                                      .gate = gates.data() + first,
                                      .each = each}});
    return y;
  };
  const std::vector<float> together = added(0, kTokens * kEach, kEach);
  for (std::int64_t row = 0; row < kTokens * kEach; ++row) {
    const auto found = together.begin() + row * kCols;
    EXPECT_EQ(std::vector(found, found + kCols), added(row, 1, 1)) << row;
  }
}

TEST_P(UnitContract, ScaleOfAMatrix_isAppliedBeforeTheBias) {
  constexpr std::int64_t kRows = 70, kCols = 64, kTokens = 3;
  const std::vector<float> weights = reals(kRows * kCols, 1), x = reals(kTokens * kCols, 2), bias = reals(kRows, 3);
  const float scale = 0.7f;
  const auto product = [&](const float* factor, const float* added) {
    Matrix w = matrix(weights, kRows, kCols);
    w.scale = factor;
    std::vector<float> y(kTokens * kRows, -1);
    run(unit(), std::vector<Op>{LinearOp{.x = x.data(),
                                         .rows = kTokens,
                                         .cols = kCols,
                                         .parts = {{{.weight = &w, .y = y.data(), .bias = added}, {}, {}}},
                                         .add = false}});
    return y;
  };
  std::vector<float> expected = product(nullptr, nullptr);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] * scale + bias[i % kRows];
  EXPECT_EQ(product(&scale, bias.data()), expected);
}

}  // namespace
}  // namespace yamata::unit_contract
