#pragma once
// Cells of the KV cache, converted to floats.
#include "node/cpu/kernels/blocks.hpp"
#include "node/cuda/device_kernels.hpp"
#include "node/cuda/kernels/arithmetic.hpp"

namespace yamata::cuda {
namespace {

struct FloatCells {
  static constexpr TensorType kType = TensorType::F32;
  static YAMATA_DEVICE float at(const void* plane, std::int64_t i) { return static_cast<const float*>(plane)[i]; }
};
struct HalfCells {
  static constexpr TensorType kType = TensorType::F16;
  static YAMATA_DEVICE float at(const void* plane, std::int64_t i) {
    return simt::half_to_float(static_cast<const std::uint16_t*>(plane)[i]);
  }
};
struct Q8Cells {
  static constexpr TensorType kType = TensorType::Q8_0;
  static YAMATA_DEVICE float at(const void* plane, std::int64_t i) {
    const cpu::BlockQ8_0& block = static_cast<const cpu::BlockQ8_0*>(plane)[i / 32];
    return static_cast<float>(block.qs[i % 32]) * simt::half_to_float(block.d);
  }
};

/// Elements i to i + 7 of a plane; i is a multiple of 8. F16 and F32 are loaded 16 bytes at a time.
template <class Cells>
YAMATA_DEVICE void eight_of(const void* plane, std::int64_t i, float (&out)[8]) {
  if constexpr (Cells::kType == TensorType::F16) {
    const simt::Words4 words = *reinterpret_cast<const simt::Words4*>(static_cast<const std::uint16_t*>(plane) + i);
    for (int j = 0; j < 8; ++j) out[j] = simt::half_to_float(static_cast<std::uint16_t>(words.word[j / 2] >> j % 2 * 16));
  } else if constexpr (Cells::kType == TensorType::F32) {
    for (int half = 0; half < 2; ++half) {
      const simt::Words4 words = reinterpret_cast<const simt::Words4*>(static_cast<const float*>(plane) + i)[half];
      for (int j = 0; j < 4; ++j) out[4 * half + j] = simt::float_of_bits(words.word[j]);
    }
  } else {
    for (int j = 0; j < 8; ++j) out[j] = Cells::at(plane, i + j);
  }
}

}  // namespace
}  // namespace yamata::cuda
