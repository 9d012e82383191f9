#pragma once
// What a device's unit needs of the device's memory besides weights, cache and activations.
#include <algorithm>
#include <cstdint>

#include "node/compute_unit.hpp"
#include "node/op.hpp"

namespace yamata {

/// Weights on their way to a device with memory of its own, as they lie in the file: so many bytes at a time.
inline constexpr std::size_t kDeviceStagingBytes = 16 << 20;
/// Attention's results by segments; beyond it rows are computed some at a time.
inline constexpr std::size_t kMostDevicePartialBytes = 64 << 20;

/// For runs in a cache of so many cells: a quantized input and one in floats, results of attention by segments, weights on their way.
inline std::uint64_t device_scratch_bytes(const ScratchNeeds& needs, std::int64_t cells) {
  constexpr std::int64_t kBlockBytes = 32 + 4 + 4, kFloat = sizeof(float);
  const std::int64_t blocks = (needs.widest + 31) / 32, segments = (cells + kAttentionSegment - 1) / kAttentionSegment;
  const std::int64_t row = std::max<std::int64_t>(1, segments) * needs.heads * (needs.head_dim + 2) * kFloat;
  const std::int64_t partials = std::max(row, std::min<std::int64_t>(kMostDevicePartialBytes, needs.rows * row));
  return kDeviceStagingBytes + static_cast<std::uint64_t>(needs.rows * (blocks * kBlockBytes + needs.widest * kFloat) + partials);
}

}  // namespace yamata
