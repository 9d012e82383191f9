#pragma once
// The data that the members of a group send each other for one input, and the offsets of each member's columns.
#include <algorithm>
#include <cstdint>

#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/kernels/repack.hpp"
#include "node/op.hpp"

namespace yamata {

/// Whether a matrix of `op` needs quantized input, and whether one needs floats; without a matrix, the result is floats.
inline bool needs_quantized(const LinearOp& op) {
  return std::ranges::any_of(op.parts, [](const auto& part) { return part.weight && cpu::has_panels(part.weight->type); });
}
inline bool needs_floats(const LinearOp& op) {
  return std::ranges::any_of(op.parts, [](const auto& part) { return part.weight && !cpu::has_panels(part.weight->type); }) ||
         !needs_quantized(op);
}

/// Offsets of the members' slices for `rows` rows: each slice is a header, then this many bytes per block of the member's columns. Floats
/// are blocks of one column.
struct SliceLayout {
  const SharedColumns& share;
  std::int64_t rows, block_cols, block_bytes;

  std::int64_t cut(int member) const { return share.cuts[static_cast<std::size_t>(member)]; }
  std::int64_t blocks_before(int member) const { return (cut(member) + block_cols - 1) / block_cols; }
  std::int64_t blocks(int member) const { return blocks_before(member + 1) - blocks_before(member); }
  /// The first of a unit's own blocks among those of its member.
  std::int64_t own_first() const { return (share.begin() - cut(share.group->own())) / block_cols; }
  std::size_t begin(int member) const {
    return static_cast<std::size_t>(member) * sizeof(SliceHeader) + static_cast<std::size_t>(rows * blocks_before(member) * block_bytes);
  }
  std::size_t payload(int member) const { return begin(member) + sizeof(SliceHeader); }
  std::size_t bytes() const { return begin(share.group->members()); }
};

inline SliceLayout float_slices(const SharedColumns& share, std::int64_t rows) { return {share, rows, 1, sizeof(float)}; }

/// Floats if one of the matrices is in floating point; else quantized blocks, and before them, for an RMSNorm, the sums of squares of each
/// row.
inline SliceLayout slices_of(const LinearOp& op) {
  if (needs_floats(op)) return float_slices(op.share, op.rows);
  const std::size_t bytes = sizeof(cpu::EncodedBlock) + (op.norm ? sizeof(float) : 0);
  return {op.share, op.rows, 32, static_cast<std::int64_t>(bytes)};
}
inline SliceLayout slices_of(const AllGatherOp& op) { return float_slices(op.share, op.rows); }

}  // namespace yamata
