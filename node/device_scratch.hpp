#pragma once
// Memory of a device that its unit needs besides weights, cache and activations.
#include <algorithm>
#include <cstdint>

#include "node/compute_unit.hpp"
#include "node/op.hpp"

namespace yamata {

/// Buffer for weights, as in the file, on their way to a device with memory of its own.
inline constexpr std::size_t kDeviceStagingBytes = 16 << 20;
/// Limit for logits of which only the highest is read: up to this size, they stay in the device's memory.
inline constexpr std::size_t kMaxDeviceLogitBytes = 32 << 20;
/// A quantized block of 32 activations, with its scale and its sums.
inline constexpr std::int64_t kDeviceBlockBytes = 32 + 4 + 4;
/// Limit for attention's partial results by segments; beyond it, rows are computed in several passes.
inline constexpr std::size_t kMaxDevicePartialBytes = 64 << 20;

/// Limit for an index's scores of cells, unless those of one row are more; beyond it, rows are scored in several passes.
inline constexpr std::size_t kMaxDeviceScoreBytes = 16 << 20;

/// For runs in a cache of `cells` cells: a quantized and a float input, attention's partial results or, in the same memory, `states_aside`
/// floats of states that are put aside, an index's scores, the staging buffer for weights, and logits of which only the highest is read.
inline std::uint64_t device_scratch_bytes(const ScratchNeeds& needs, std::int64_t cells, std::int64_t states_aside = 0) {
  constexpr std::int64_t kFloat = sizeof(float);
  const std::int64_t blocks = (needs.widest + 31) / 32, segments = (cells + kAttentionSegment - 1) / kAttentionSegment;
  const std::int64_t row = std::max<std::int64_t>(1, segments) * needs.heads * (needs.head_dim + 2) * kFloat;
  const std::int64_t results = std::max(row, std::min<std::int64_t>(kMaxDevicePartialBytes, needs.rows * row));
  const std::int64_t partials = std::max(results, states_aside * kFloat);
  const std::int64_t scores =
      needs.scores ? std::max(cells * kFloat, std::min<std::int64_t>(kMaxDeviceScoreBytes, needs.rows * cells * kFloat)) : 0;
  const std::int64_t logits = std::min<std::int64_t>(kMaxDeviceLogitBytes, needs.logits * kFloat);
  return kDeviceStagingBytes +
         static_cast<std::uint64_t>(needs.rows * (blocks * kDeviceBlockBytes + needs.widest * kFloat) + partials + scores + logits);
}

}  // namespace yamata
