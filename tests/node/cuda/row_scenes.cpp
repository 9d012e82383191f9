#include <bit>

#include "tests/node/cuda/scenes.hpp"

namespace yamata::cuda {
namespace {

struct InputShape {
  std::int64_t rows, cols, stride;
  bool normed, gated, floats;
  Activation activation = gated ? Activation::kSilu : Activation::kNone;
  bool graded = false;  ///< of the columns, only the first of each block is not 0: the root mean square shows in which order they are added
};

/// Rows, `stride` apart, and what goes with them.
struct Rows {
  Rows(const TestDevice& device, const InputShape& s, unsigned seed) {
    cpu::Random random(seed);
    const auto count = static_cast<std::size_t>((s.rows - 1) * s.stride + s.cols);
    x = device.array(cpu::random_floats(random, count));
    up = device.array(cpu::random_floats(random, count));
    norm = device.array(cpu::random_floats(random, static_cast<std::size_t>(s.cols)));
    // Of the sum in double precision, a small square is 0.4 of the last bit; 127 of them are 50 bits, if they are not added one by one.
    for (std::size_t i = 0; s.graded && i < count; ++i) x.data()[i] = i == 0 ? 0x1.541a1ap+0f : i % 32 == 0 ? 0x1.43d136p-27f : 0.0f;
  }
  Array<float> x, up, norm;
};

float root_of(const Rows& rows, const InputShape& s, std::int64_t row, float epsilon) {
  std::vector<float> squares(static_cast<std::size_t>(cpu::QuantizedRows::blocks_of(s.cols)));
  scalar().block_squares(rows.x.data() + row * s.stride, s.cols, squares.data());
  return scalar().inverse_rms(squares.data(), s.cols, epsilon);
}

/// What the CPU quantizes: a row that is gated, or as it is.
std::vector<float> values_of(const Rows& rows, const InputShape& s, std::int64_t row) {
  std::vector<float> values(rows.x.data() + row * s.stride, rows.x.data() + row * s.stride + s.cols);
  const float* up = s.gated ? rows.up.data() + row * s.stride : nullptr;
  if (s.activation != Activation::kNone) scalar().activate(s.activation, rows.x.data() + row * s.stride, up, s.cols, values.data());
  return values;
}

bool input_holds(const TestDevice& device, const InputShape& s) {
  constexpr float kEpsilon = 1e-5f;
  const Rows rows(device, s, static_cast<unsigned>(s.cols));
  const DeviceActivations x8(device, s.rows, s.cols);
  const Array<float> floats = device.array(static_cast<std::size_t>(s.rows * s.cols), 5.0f);
  device.kernels().make_input({rows.x.data(), s.normed ? rows.norm.data() : nullptr, s.gated ? rows.up.data() : nullptr, s.stride, s.rows,
                               s.cols, kEpsilon, s.floats ? floats.data() : nullptr, x8.rows, s.activation},
                              device.stream());
  device.finish();
  cpu::Activations expected(scalar(), std::vector<float>(static_cast<std::size_t>(s.rows * s.cols)), s.rows, s.cols);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    std::vector<float> values = values_of(rows, s, row);
    const float root = s.normed ? root_of(rows, s, row, kEpsilon) : 1.0f;
    scalar().quantize(values.data(), s.normed ? rows.norm.data() : nullptr, root, 0, s.cols, expected.quantized(), row);
    if (s.normed) scalar().scale_mul(rows.x.data() + row * s.stride, root, rows.norm.data(), s.cols, values.data());
    for (std::size_t i = 0; s.floats && i < values.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(floats.data()[static_cast<std::size_t>(row * s.cols) + i]) !=
          std::bit_cast<std::uint32_t>(values[i]))
        return false;
    }
  }
  return x8.equal(expected);
}

/// Two members' columns, encoded by each, the second's by two units, and decoded together, are what one has made of all.
bool exchange_holds(const TestDevice& device, const InputShape& s, std::int64_t cut) {
  constexpr float kEpsilon = 1e-6f;
  const Rows rows(device, s, static_cast<unsigned>(s.cols) + 1);
  const std::int64_t begins[] = {0, cut, s.cols};
  Array<DecodeArgs::Member> members = device.array(2, DecodeArgs::Member{});
  std::vector<Array<cpu::EncodedBlock>> blocks;
  std::vector<Array<float>> squares;
  for (int m = 0; m < 2; ++m) {
    const std::int64_t begin = begins[m], cols = begins[m + 1] - begin, count = cpu::QuantizedRows::blocks_of(cols);
    blocks.push_back(device.array(static_cast<std::size_t>(s.rows * count), cpu::EncodedBlock{}));
    squares.push_back(device.array(s.normed ? static_cast<std::size_t>(s.rows * count) : 0, 1.0f));
    const auto encode = [&](std::int64_t from, std::int64_t to) {
      device.kernels().encode(
          {rows.x.data() + begin + from, s.normed ? rows.norm.data() + begin + from : nullptr,
           s.gated ? rows.up.data() + begin + from : nullptr, s.stride, s.rows, to - from,
           reinterpret_cast<std::byte*>(blocks.back().data() + from / 32), squares.back().data() + from / 32, count, s.activation},
          device.stream());
    };
    if (m == 1 && cols > 32) {
      encode(32, cols);
      encode(0, 32);
    } else {
      encode(0, cols);
    }
    members.data()[m] = {reinterpret_cast<const std::byte*>(blocks.back().data()), squares.back().data(), begin / 32, count};
  }
  const DeviceActivations found(device, s.rows, s.cols), expected(device, s.rows, s.cols);
  device.kernels().decode({members.data(), 2, s.normed, s.cols, kEpsilon, found.rows}, device.stream());
  device.kernels().make_input({rows.x.data(), s.normed ? rows.norm.data() : nullptr, s.gated ? rows.up.data() : nullptr, s.stride, s.rows,
                               s.cols, kEpsilon, nullptr, expected.rows, s.activation},
                              device.stream());
  device.finish();
  return found.values.values() == expected.values.values() && cpu::bits(found.scales.values()) == cpu::bits(expected.scales.values()) &&
         found.sub_sums.values() == expected.sub_sums.values();
}

bool copy_holds(const TestDevice& device, bool gated) {
  const InputShape s{3, 300, 310, false, gated, false};
  const Rows rows(device, s, 3);
  const Array<float> to = device.array(std::size_t{2 * 305 + 300}, 8.0f);
  device.kernels().copy({rows.x.data(), gated ? rows.up.data() : nullptr, s.stride, s.rows, s.cols, to.data(), 305, s.activation},
                        device.stream());
  device.finish();
  std::vector<float> expected(to.count, 8.0f);
  for (std::int64_t row = 0; row < s.rows; ++row) std::ranges::copy(values_of(rows, s, row), expected.begin() + row * 305);
  return cpu::bits(to.values()) == cpu::bits(expected);
}

bool gather_holds(const TestDevice& device) {
  constexpr std::int64_t kDim = 270;
  cpu::Random random(4);
  const std::vector<std::int32_t> rows{3, 0, 3};
  const Array<float> x = device.array(cpu::random_floats(random, 4 * kDim)), out = device.array(rows.size() * kDim, 0.0f);
  const Array<std::int32_t> chosen = device.array(rows);
  device.kernels().gather({x.data(), kDim, std::ssize(rows), chosen.data(), out.data(), kDim}, device.stream());
  device.finish();
  for (std::size_t i = 0; i < out.count; ++i) {
    if (out.data()[i] != x.data()[rows[i / kDim] * kDim + static_cast<std::int64_t>(i % kDim)]) return false;
  }
  return true;
}

}  // namespace

std::vector<Scene> row_scenes() {
  std::vector<Scene> scenes;
  for (const std::int64_t cols : {1, 15, 33, 200, 640, 1030}) {
    for (const InputShape& s : {InputShape{3, cols, cols + 5, false, false, true}, InputShape{3, cols, cols, true, false, true},
                                InputShape{2, cols, cols + 1, false, true, true}, InputShape{1, cols, cols, true, false, false},
                                InputShape{2, cols, cols + 3, false, true, true, Activation::kGeluTanh},
                                InputShape{2, cols, cols, false, false, true, Activation::kGeluTanh},
                                InputShape{2, cols, cols, false, true, true, Activation::kClampedSilu},
                                InputShape{2, cols, cols, false, false, true, Activation::kSquaredRelu}}) {
      scenes.push_back({"input of " + std::to_string(cols), [=](const TestDevice& device) { return input_holds(device, s); }});
      if (cols < 64) continue;
      scenes.push_back({"exchange of " + std::to_string(cols), [=](const TestDevice& device) { return exchange_holds(device, s, 64); }});
    }
  }
  scenes.push_back({"input whose sum of squares depends on its order", [](const TestDevice& device) {
                      return input_holds(device, {1, 4096, 4096, true, false, true, Activation::kNone, true});
                    }});
  for (const InputShape& s : {InputShape{2, 5000, 5001, true, false, true}, InputShape{17, 200, 203, true, false, true}}) {
    scenes.push_back({"long rows, or many", [=](const TestDevice& device) { return input_holds(device, s); }});
  }
  scenes.push_back({"exchange of long rows", [](const TestDevice& device) {
                      return exchange_holds(device, {2, 9000, 9000, true, false, true}, 4256);
                    }});
  scenes.push_back({"copy", [](const TestDevice& device) { return copy_holds(device, false); }});
  scenes.push_back({"gated copy", [](const TestDevice& device) { return copy_holds(device, true); }});
  scenes.push_back({"gather", gather_holds});
  return scenes;
}

}  // namespace yamata::cuda
