#include <algorithm>
#include <bit>

#include "node/cpu/kernels/repack.hpp"
#include "node/cuda/ops/ops.hpp"
#include "tests/node/cuda/scenes.hpp"

namespace yamata::cuda {
namespace {

/// A matrix on the device, and what the CPU makes of it.
struct DeviceMatrix {
  DeviceMatrix(const TestDevice& device, TensorType type, std::int64_t rows, std::int64_t cols, cpu::Random& random)
      : weights(type, cpu::random_weights(random, type, rows, cols), rows, cols) {
    const Array<std::byte> source = device.array(weights.bytes);
    const Matrix matrix{type, rows, cols, nullptr, weights.row_bytes};
    panels = device.array(packed_bytes(matrix), std::byte{0xa5});
    const auto& kernels = *device.kernels().formats[static_cast<std::size_t>(type)];
    const std::int64_t half = rows / 64 * 32;  // in two goes
    kernels.pack({source.data(), weights.row_bytes, 0, half, cols, panels.data()}, device.stream());
    kernels.pack({source.data(), weights.row_bytes, half, rows, cols, panels.data()}, device.stream());
    device.finish();
  }
  std::size_t packed_row_bytes() const {
    return cpu::has_panels(weights.type) ? cpu::packed_row_bytes(weights.type, weights.row_bytes) : weights.row_bytes;
  }
  cpu::Weights weights;
  Array<std::byte> panels;
};

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) { return cpu::bits(a) == cpu::bits(b); }

InputArgs plain(const Array<float>& x, std::int64_t rows, std::int64_t cols, const DeviceRows& x8) {
  return {x.data(), nullptr, nullptr, cols, rows, cols, 0, nullptr, x8, Activation::kNone};
}

}  // namespace

DeviceActivations::DeviceActivations(const TestDevice& device, std::int64_t count, std::int64_t cols) {
  const std::int64_t blocks = cpu::QuantizedRows::blocks_of(cols);
  const auto all = static_cast<std::size_t>(count * blocks);
  values = device.array(all * 32, std::int8_t{77});
  scales = device.array(all, 77.0f);
  sub_sums = device.array(2 * all, std::int16_t{77});
  rows = {values.data(), scales.data(), sub_sums.data(), blocks, count};
}

bool DeviceActivations::equal(const cpu::Activations& expected) const {
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    for (std::int64_t b = 0; b < rows.blocks; ++b) {
      const cpu::Activations::Block block = expected.block(row, b);
      const std::int64_t at = row * rows.blocks + b;
      if (!std::equal(block.values.begin(), block.values.end(), values.data() + 32 * at)) return false;
      if (std::bit_cast<std::uint32_t>(block.scale) != std::bit_cast<std::uint32_t>(scales.data()[at])) return false;
      if (block.sub_sums[0] != sub_sums.data()[2 * at] || block.sub_sums[1] != sub_sums.data()[2 * at + 1]) return false;
    }
  }
  return true;
}

bool product_holds(const TestDevice& device, const ProductShape& s) {
  cpu::Random random(static_cast<unsigned>(s.rows * 131 + s.cols + s.tokens));
  const DeviceMatrix matrix(device, s.type, s.rows, s.cols, random);
  cpu::Activations input(scalar(), cpu::random_floats(random, static_cast<std::size_t>(s.tokens * s.cols)), s.tokens, s.cols);
  const Array<float> x = device.array(input.x);
  const DeviceActivations x8(device, s.tokens, s.cols);
  device.kernels().make_input(plain(x, s.tokens, s.cols, x8.rows), device.stream());
  const std::int64_t end = s.end < 0 ? s.rows : s.end;
  const Array<float> y = device.array(static_cast<std::size_t>(s.tokens * s.rows), 0.25f);
  ProductArgs args{
      {{matrix.panels.data(), s.begin, end, y.data(), s.rows}}, 1, matrix.packed_row_bytes(), s.cols, x.data(), x8.rows, s.tokens, s.add};
  device.kernels().formats[static_cast<std::size_t>(s.type)]->multiply(args, device.stream());
  device.finish();
  std::vector<float> expected = cpu::multiply(scalar(), matrix.weights, input);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) % s.rows;
    expected[i] = row < s.begin || row >= end ? 0.25f : s.add ? 0.25f + expected[i] : expected[i];
  }
  return equal_bits(y.values(), expected);
}

bool products_hold_together(const TestDevice& device, TensorType type, std::int64_t tokens) {
  constexpr std::int64_t kRows[] = {40, 7, 70}, kCols = 512, kStride = 75;
  cpu::Random random(9);
  std::vector<DeviceMatrix> matrices;
  for (const std::int64_t rows : kRows) matrices.emplace_back(device, type, rows, kCols, random);
  cpu::Activations input(scalar(), cpu::random_floats(random, static_cast<std::size_t>(tokens * kCols)), tokens, kCols);
  const Array<float> x = device.array(input.x);
  const DeviceActivations x8(device, tokens, kCols);
  device.kernels().make_input(plain(x, tokens, kCols, x8.rows), device.stream());
  std::vector<Array<float>> y;
  ProductArgs args{{}, 3, matrices[0].packed_row_bytes(), kCols, x.data(), x8.rows, tokens, false};
  for (std::size_t i = 0; i < 3; ++i) {
    y.push_back(device.array(static_cast<std::size_t>((tokens - 1) * kStride + kRows[i]), 3.0f));
    args.parts[i] = {matrices[i].panels.data(), 0, kRows[i], y[i].data(), kStride};
  }
  device.kernels().formats[static_cast<std::size_t>(type)]->multiply(args, device.stream());
  device.finish();
  for (std::size_t i = 0; i < 3; ++i) {
    const std::vector<float> expected = cpu::multiply(scalar(), matrices[i].weights, input);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t row = 0; row < kStride && t * kStride + row < static_cast<std::int64_t>(y[i].count); ++row) {
        const float value = row < kRows[i] ? expected[static_cast<std::size_t>(t * kRows[i] + row)] : 3.0f;
        if (std::bit_cast<std::uint32_t>(y[i].data()[t * kStride + row]) != std::bit_cast<std::uint32_t>(value)) return false;
      }
    }
  }
  return true;
}

/// Products too small for a float, of either sign: 16 lanes of -0, to which no 0 may be added.
bool minus_zeros_hold(const TestDevice& device) {
  const Array<float> w = device.array(16, -1e-30f), x = device.array(16, 1e-30f), panels = device.array(128, 1.0f),
                     y = device.array(1, 1.0f);
  const FormatKernels& kernels = *device.kernels().formats[static_cast<std::size_t>(TensorType::F32)];
  kernels.pack({reinterpret_cast<const std::byte*>(w.data()), 64, 0, 1, 16, reinterpret_cast<std::byte*>(panels.data())}, device.stream());
  kernels.multiply({{{reinterpret_cast<const std::byte*>(panels.data()), 0, 1, y.data(), 1}}, 1, 64, 16, x.data(), {}, 1, false},
                   device.stream());
  device.finish();
  return std::bit_cast<std::uint32_t>(y.data()[0]) == 0x80000000u;
}

std::vector<Scene> product_scenes() {
  std::vector<Scene> scenes;
  const auto add = [&](const ProductShape& shape) {
    scenes.push_back({std::string(traits(shape.type).name), [=](const TestDevice& device) { return product_holds(device, shape); }});
  };
  // Three stages of shared memory and a part; K formats with scales of blocks, of sub-blocks, with and without a minimum.
  add({TensorType::Q4_0, 33, 3200, 1});
  add({TensorType::Q4_1, 40, 1312, 3, 5, 37});
  add({TensorType::Q2_K, 35, 1280, 5});
  add({TensorType::Q4_K, 33, 768, 11, 0, -1, true});
  add({TensorType::Q6_K, 33, 768, 17});
  add({TensorType::Q4_1, 70, 416, 70, 16, 67});
  scenes.push_back({"minus zeros", minus_zeros_hold});
  add({TensorType::F16, 21, 331, 1});
  add({TensorType::F32, 19, 140, 11, 1, 18, true});
  return scenes;
}

}  // namespace yamata::cuda
