#pragma once
// Operations and their memory, for tests of compute units.
#include <atomic>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "node/compute_unit.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "tests/finish.hpp"

namespace yamata {

inline void run(ComputeUnit& unit, std::span<const Op> ops, const std::atomic<bool>* stop = nullptr) {
  unit.start(ops, stop);
  finish(unit);
}

/// Integers from -8 to 8: sums of their products are exact in float, so every order gives the same result.
inline std::vector<float> whole_numbers(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 17) - 8);
  return values;
}

inline std::vector<float> reals(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

inline Matrix matrix(const std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
  return {TensorType::F32, rows, cols, reinterpret_cast<const std::byte*>(values.data()), static_cast<std::size_t>(cols) * sizeof(float)};
}

/// Random blocks of Q8_0 with scales near 1/64.
inline std::vector<std::byte> q8_0(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  const auto blocks = static_cast<std::size_t>(rows * cols / 32);
  std::vector<std::byte> bytes(blocks * 34);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::uint16_t scale = cpu::f32_to_f16(static_cast<float>(1 + random() % 4) / 64.0f);
    std::memcpy(&bytes[b * 34], &scale, 2);
    for (std::size_t i = 2; i < 34; ++i) bytes[b * 34 + i] = static_cast<std::byte>(random());
  }
  return bytes;
}

/// Buffers and operations of one decoder layer over a few tokens.
struct Layer {
  static constexpr std::int64_t kDim = 128, kFfn = 160, kHeads = 4, kKvHeads = 2, kHeadDim = 32, kRotary = 8, kTokens = 5, kCells = 8;

  explicit Layer(TensorType type = TensorType::F16) {
    cells = {6, 2, 3, 7, 0};
    for (std::size_t t = 0; t < kTokens; ++t) visible[t] = std::span(cells).first(t + 1);
    const std::size_t cell_bytes = kHeadDim / traits(type).block_elements * traits(type).block_bytes;
    for (std::int64_t head = 0; head < kKvHeads; ++head) {
      planes_k.emplace_back(kCells * cell_bytes);
      planes_v.emplace_back(kCells * cell_bytes);
    }
    for (std::size_t head = 0; head < kKvHeads; ++head) {
      cache_k.push_back(planes_k[head].data());
      cache_v.push_back(planes_v[head].data());
    }
    ops.push_back(LinearOp{
        x.data(), kTokens, kDim, {{{&w_q, q.data()}, {&w_k, k.data()}, {&w_v, v.data()}}}, false, norm.data(), 1e-5f, nullptr, h.data()});
    ops.push_back(StoreOp{q.data(), k.data(), v.data(), kTokens, kHeads, kKvHeads, kHeadDim, kRotary, type == TensorType::F32,
                          angles.data(), cells.data(), cache_k.data(), cache_v.data(), type, type});
    ops.push_back(AttentionOp{q.data(), kTokens, kHeads, kKvHeads, kHeadDim, 0.25f, visible, cache_k.data(), cache_v.data(), type, type,
                              attention.data()});
    ops.push_back(LinearOp{attention.data(), kTokens, kDim, {{{&w_o, x.data()}, {}, {}}}, true});
    ops.push_back(LinearOp{x.data(), kTokens, kDim, {{{&w_gate, gate.data()}, {&w_up, up.data()}, {}}}, false});
    ops.push_back(LinearOp{
        gate.data(), kTokens, kFfn, {{{&w_down, x.data()}, {}, {}}}, true, nullptr, 0, up.data(), gate.data(), 0, {}, Activation::kSilu});
  }

  static Matrix quantized(const std::vector<std::byte>& bytes, std::int64_t rows, std::int64_t cols) {
    return {TensorType::Q8_0, rows, cols, bytes.data(), static_cast<std::size_t>(cols / 32 * 34)};
  }

  static constexpr std::int64_t kKvDim = kKvHeads * kHeadDim;
  const std::vector<std::byte> data_q = q8_0(kDim, kDim, 10), data_k = q8_0(kKvDim, kDim, 11), data_v = q8_0(kKvDim, kDim, 12),
                               data_o = q8_0(kDim, kDim, 13), data_gate = q8_0(kFfn, kDim, 14), data_down = q8_0(kDim, kFfn, 15);
  const std::vector<float> data_up = reals(kFfn * kDim, 16);  // floats together with quantized weights in one operation
  const Matrix w_q = quantized(data_q, kDim, kDim), w_k = quantized(data_k, kKvDim, kDim), w_v = quantized(data_v, kKvDim, kDim),
               w_o = quantized(data_o, kDim, kDim), w_gate = quantized(data_gate, kFfn, kDim), w_up = matrix(data_up, kFfn, kDim),
               w_down = quantized(data_down, kDim, kFfn);
  std::vector<float> x = reals(kTokens * kDim, 20), h = x, q = x, attention = x, norm = reals(kDim, 21),
                     angles = reals(kTokens * kRotary, 22);
  std::vector<float> k = std::vector<float>(kTokens * kKvDim), v = k;
  std::vector<float> gate = std::vector<float>(kTokens * kFfn), up = gate;
  std::vector<std::int32_t> cells;
  std::span<const std::int32_t> visible[kTokens];
  std::vector<std::vector<std::byte>> planes_k, planes_v;
  std::vector<void*> cache_k, cache_v;
  std::vector<Op> ops;
};

}  // namespace yamata
