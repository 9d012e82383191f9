// What families do to rows: norms by themselves, biases, sums, soft-caps.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/node/cuda/scenes.hpp"

namespace yamata::cuda {
namespace {

/// Rows of 300, some columns of which are asked for; in place where all are.
bool norm_holds(const TestDevice& device, std::int64_t cols, bool centered, bool biased, bool in_place, std::int64_t weight_rows = 1) {
  const std::int64_t rows = 3, stride = cols + 3, begin = in_place ? 0 : cols / 3, count = in_place ? cols : cols - cols / 2;
  std::vector<float> x = reals(rows * stride, 1), out(in_place ? 0 : x.size(), 2.0f);
  const std::vector<float> weight = reals(weight_rows * cols, 2), bias = reals(cols, 3);
  const Array<float> device_x = device.array(x), device_out = device.array(out), device_weight = device.array(weight),
                     device_bias = device.array(bias);
  device.kernels().norm({device_x.data(), stride, rows, cols, device_weight.data(), biased ? device_bias.data() : nullptr, centered, 1e-5f,
                         in_place ? device_x.data() : device_out.data(), begin, count, stride, weight_rows},
                        device.stream());
  device.finish();
  NormOp op{};
  op.x = x.data(), op.rows = rows, op.cols = cols, op.x_stride = stride, op.weight = weight.data();
  op.bias = biased ? bias.data() : nullptr, op.centered = centered, op.epsilon = 1e-5f;
  op.out = in_place ? x.data() : out.data(), op.out_begin = begin, op.out_cols = count, op.out_stride = stride,
  op.weight_rows = weight_rows;
  compute_on_core(op);
  return cpu::bits(device_x.values()) == cpu::bits(x) && cpu::bits(device_out.values()) == cpu::bits(out);
}

bool bias_holds(const TestDevice& device, bool biased, bool scaled) {
  constexpr std::int64_t kRows = 2, kStride = 310, kBegin = 5, kEnd = 305;
  std::vector<float> y = reals(kRows * kStride, 1);
  const std::vector<float> bias = reals(kEnd, 2);
  const Array<float> device_y = device.array(y), device_bias = device.array(bias), device_scale = device.array(std::vector{0.7f});
  device.kernels().add_bias(
      {device_y.data(), kStride, kRows, kBegin, kEnd, biased ? device_bias.data() : nullptr, scaled ? device_scale.data() : nullptr},
      device.stream());
  device.finish();
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = kBegin; i < kEnd; ++i) {
      float& value = y[static_cast<std::size_t>(row * kStride + i)];
      if (scaled) value *= 0.7f;
      if (biased) value += bias[static_cast<std::size_t>(i)];
    }
  }
  return cpu::bits(device_y.values()) == cpu::bits(y);
}

bool resize_holds(const TestDevice& device, std::int64_t from_cols, std::int64_t to_cols) {
  constexpr std::int64_t kRows = 3;
  std::vector<float> from = reals(kRows * from_cols, 7), to(static_cast<std::size_t>(kRows * to_cols), 2.0f);
  const Array<float> device_from = device.array(from), device_to = device.array(to);
  device.kernels().resize({device_from.data(), device_to.data(), kRows, from_cols, to_cols}, device.stream());
  device.finish();
  compute_on_core(ResizeOp{from.data(), to.data(), kRows, from_cols, to_cols});
  return cpu::bits(device_to.values()) == cpu::bits(to);
}

enum class Sum { kPlain, kGated, kExperts, kUnweighted, kRepeated, kValues };

/// kValues: a gate per value, as draft heads have; their rows are more than a grid may have blocks in y.
bool sum_holds(const TestDevice& device, Sum kind) {
  constexpr std::int64_t kUsed = 2;
  const bool values = kind == Sum::kValues, weighted = kind == Sum::kExperts, experts = weighted || kind == Sum::kUnweighted;
  const bool gated = values || kind == Sum::kGated || kind == Sum::kRepeated;
  const std::int64_t rows = values ? 70'000 : 3, cols = values ? 1 : 300, stride = values ? 1 : 305;
  const std::int64_t each = kind == Sum::kRepeated ? rows : 1, from_rows = experts ? rows * kUsed : rows / each;
  const auto floats = [&](std::int64_t of_rows) { return static_cast<std::size_t>((of_rows - 1) * stride + cols); };
  std::vector<float> to = reals(floats(rows), 1), from = reals(floats(from_rows), 2), gate = reals(static_cast<std::size_t>(rows), 3),
                     weights = reals(static_cast<std::size_t>(rows * kUsed), 4);
  std::vector<std::int32_t> pairs{5, 0, 3, 2, 1, 4};
  const Array<float> device_to = device.array(to), device_from = device.array(from), device_gate = device.array(gate),
                     device_weights = device.array(weights);
  const Array<std::int32_t> device_pairs = device.array(pairs);
  device.kernels().add({device_to.data(), device_from.data(), rows, cols, stride, stride, 0.7f, gated ? device_gate.data() : nullptr,
                        weighted ? device_weights.data() : nullptr, experts ? device_pairs.data() : nullptr, kUsed, each},
                       device.stream());
  device.finish();
  AddOp op{to.data(), from.data(), rows, cols, stride, stride, 0.7f, gated ? gate.data() : nullptr, {}};
  if (experts) op.experts = {.experts = 8, .used = kUsed, .weights = weights.data(), .pairs = pairs.data()};
  op.weighted = weighted, op.each = each;
  compute_on_core(op);
  return cpu::bits(device_to.values()) == cpu::bits(to);
}

bool scale_holds(const TestDevice& device, float cap) {
  std::vector<float> x = reals(300, 6);
  const Array<float> device_x = device.array(x);
  device.kernels().scale({device_x.data(), std::ssize(x), 3.5f, cap}, device.stream());
  device.finish();
  compute_on_core(ScaleOp{x.data(), std::ssize(x), 3.5f, cap});
  return cpu::bits(device_x.values()) == cpu::bits(x);
}

/// Rows of pairs, each by its expert's weight.
bool scale_by_experts_holds(const TestDevice& device) {
  constexpr std::int64_t kTokens = 3, kUsed = 2, kCols = 150;
  std::vector<float> x = reals(kTokens * kUsed * kCols, 6), weights = reals(kTokens * kUsed, 7);
  std::vector<std::int32_t> pairs{5, 0, 3, 2, 1, 4}, tokens{0, 2, 1, 1, 2, 0};
  const Array<float> device_x = device.array(x), device_weights = device.array(weights);
  const Array<std::int32_t> device_pairs = device.array(pairs), device_tokens = device.array(tokens);
  device.kernels().scale(
      {device_x.data(), std::ssize(x), 1, 0, device_weights.data(), device_pairs.data(), device_tokens.data(), kUsed, kCols},
      device.stream());
  device.finish();
  std::vector<float> expected = x;
  for (std::size_t slot = 0; slot < pairs.size(); ++slot) {
    for (std::int64_t i = 0; i < kCols; ++i) expected[static_cast<std::size_t>(pairs[slot] * kCols + i)] *= weights[slot];
  }
  ScaleOp op{.x = x.data(), .n = std::ssize(x), .scale = 1, .cols = kCols};
  op.experts = {.experts = 8, .used = kUsed, .weights = weights.data(), .pairs = pairs.data(), .tokens = tokens.data()};
  compute_on_core(op);
  return cpu::bits(x) == cpu::bits(expected) && cpu::bits(device_x.values()) == cpu::bits(x);
}

/// Some columns of a row: ties, no numbers, infinities, a row without any number, and whatever is highest beside them.
bool highest_holds(const TestDevice& device, std::int64_t cols, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kRows = 6;
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x = reals(kRows * cols, static_cast<unsigned>(cols));
  const auto row = [&](std::int64_t i) { return std::span(x).subspan(static_cast<std::size_t>(i * cols), static_cast<std::size_t>(cols)); };
  for (float& value : row(1)) value = std::round(value);  // many are equal
  std::ranges::fill(row(2), kNone);
  std::ranges::fill(row(3), -kInfinity);
  for (std::size_t i = 0; i < row(4).size(); i += 2) row(4)[i] = kNone;
  row(5)[static_cast<std::size_t>(end - 1)] = kInfinity;
  std::vector<Highest> expected(kRows, {7, 7});
  const Array<float> device_x = device.array(x);
  const Array<Highest> device_out = device.array(expected);
  device.kernels().highest({device_x.data(), kRows, cols, begin, end, device_out.data()}, device.stream());
  device.finish();
  compute_on_core(HighestOp{x.data(), kRows, cols, expected.data(), {begin, end}});
  return std::ranges::equal(device_out.values(), expected, [](const Highest& a, const Highest& b) {
    return a.column == b.column && std::bit_cast<std::uint32_t>(a.value) == std::bit_cast<std::uint32_t>(b.value);
  });
}

}  // namespace

std::vector<Scene> residual_scenes() {
  std::vector<Scene> scenes;
  for (const std::int64_t cols : {1, 7, 33, 300}) {
    for (const bool centered : {false, true}) {
      for (const bool in_place : {false, true})
        scenes.push_back({"norm of " + std::to_string(cols),
                          [=](const TestDevice& device) { return norm_holds(device, cols, centered, centered && in_place, in_place); }});
    }
  }
  scenes.push_back({"norm of a long row", [](const TestDevice& device) { return norm_holds(device, 4200, true, true, false); }});
  scenes.push_back(
      {"norm with weights of each row", [](const TestDevice& device) { return norm_holds(device, 24, true, false, true, 2); }});
  for (const int which : {1, 2, 3})
    scenes.push_back({"biases and scales", [=](const TestDevice& device) { return bias_holds(device, which & 1, which & 2); }});
  for (const auto& cols : {std::pair{100, 128}, {128, 100}, {8, 32}, {300, 320}})
    scenes.push_back({"resized rows", [=](const TestDevice& device) { return resize_holds(device, cols.first, cols.second); }});
  for (const Sum kind : {Sum::kPlain, Sum::kGated, Sum::kExperts, Sum::kUnweighted, Sum::kRepeated, Sum::kValues})
    scenes.push_back({"sum", [=](const TestDevice& device) { return sum_holds(device, kind); }});
  for (const float cap : {0.0f, 30.0f}) scenes.push_back({"scale", [=](const TestDevice& device) { return scale_holds(device, cap); }});
  scenes.push_back({"scale by experts", scale_by_experts_holds});
  for (const std::int64_t cols : {1, 7, 33, 300, 1025, 2050}) {
    scenes.push_back(
        {"highest of " + std::to_string(cols), [=](const TestDevice& device) { return highest_holds(device, cols, 0, cols); }});
    scenes.push_back({"highest of some of " + std::to_string(cols),
                      [=](const TestDevice& device) { return highest_holds(device, cols, cols / 3, cols - cols / 4); }});
  }
  return scenes;
}

std::vector<Scene> all_scenes() {
  std::vector<Scene> all;
  for (const auto& scenes : {row_scenes(), residual_scenes(), cache_scenes(), product_scenes(), state_scenes()})
    all.insert(all.end(), scenes.begin(), scenes.end());
  return all;
}

}  // namespace yamata::cuda
