#pragma once
// What simt.hpp has on every device.
#include <cstddef>
#include <cstdint>

#include "node/cuda/kernels/launch.hpp"

namespace yamata::simt {

/// Sixteen bytes, for vectorized loads and stores.
struct alignas(16) Words4 {
  std::uint32_t word[4];
};

constexpr unsigned kWarp = 32;

}  // namespace yamata::simt
