#pragma once
// Cells of the KV cache.
#include "node/cpu/kernels/blocks.hpp"
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

// Eight or two elements as they lie in a plane, from element i on, a multiple of 8 or 2: many can be loaded before any is converted.

struct FloatCells {
  static constexpr int kRegisters = 2;  ///< of two elements
  struct Eight {
    simt::Words4 half[2];
  };
  struct alignas(8) Two {
    std::uint32_t word[2];
  };
  static YAMATA_DEVICE const float* of(const void* plane, std::int64_t i) { return static_cast<const float*>(plane) + i; }
  static YAMATA_DEVICE Eight eight(const void* plane, std::int64_t i) {
    const auto* halves = reinterpret_cast<const simt::Words4*>(of(plane, i));
    return {{halves[0], halves[1]}};
  }
  static YAMATA_DEVICE Two two(const void* plane, std::int64_t i) { return *reinterpret_cast<const Two*>(of(plane, i)); }
  static YAMATA_DEVICE float at(const Eight& eight, int j) { return simt::float_of_bits(eight.half[j / 4].word[j % 4]); }
  static YAMATA_DEVICE float at(const Two& two, int j) { return simt::float_of_bits(two.word[j]); }
};

struct HalfCells {
  static constexpr int kRegisters = 1;
  using Eight = simt::Words4;
  using Two = std::uint32_t;
  static YAMATA_DEVICE const std::uint16_t* of(const void* plane, std::int64_t i) { return static_cast<const std::uint16_t*>(plane) + i; }
  static YAMATA_DEVICE Eight eight(const void* plane, std::int64_t i) { return *reinterpret_cast<const Eight*>(of(plane, i)); }
  static YAMATA_DEVICE Two two(const void* plane, std::int64_t i) { return *reinterpret_cast<const Two*>(of(plane, i)); }
  static YAMATA_DEVICE float at(const Eight& eight, int j) { return at(eight.word[j / 2], j % 2); }
  static YAMATA_DEVICE float at(Two two, int j) { return simt::half_to_float(static_cast<std::uint16_t>(two >> 16 * j)); }
};

struct Q8Cells {
  static constexpr int kRegisters = 2;
  struct Two {
    std::uint16_t scale, values;
  };
  struct Eight {
    std::uint16_t scale, values[4];
  };
  static YAMATA_DEVICE const std::uint16_t* values(const cpu::BlockQ8_0& block, std::int64_t i) {
    return reinterpret_cast<const std::uint16_t*>(block.qs + i % 32);
  }
  static YAMATA_DEVICE Eight eight(const void* plane, std::int64_t i) {
    const cpu::BlockQ8_0& block = static_cast<const cpu::BlockQ8_0*>(plane)[i / 32];
    const std::uint16_t* from = values(block, i);
    return {block.d, {from[0], from[1], from[2], from[3]}};
  }
  static YAMATA_DEVICE Two two(const void* plane, std::int64_t i) {
    const cpu::BlockQ8_0& block = static_cast<const cpu::BlockQ8_0*>(plane)[i / 32];
    return {block.d, *values(block, i)};
  }
  static YAMATA_DEVICE float at(const Two& two, int j) {
    return static_cast<float>(static_cast<std::int8_t>(two.values >> 8 * j)) * simt::half_to_float(two.scale);
  }
  static YAMATA_DEVICE float at(const Eight& eight, int j) { return at(Two{eight.scale, eight.values[j / 2]}, j % 2); }
};

}  // namespace
}  // namespace yamata::cuda
