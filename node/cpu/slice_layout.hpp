#pragma once
// What the members of a group send each other for one input, and where in it each member's columns lie.
#include <algorithm>
#include <cstdint>

#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/kernels/repack.hpp"
#include "node/op.hpp"

namespace yamata {

/// Whether a matrix of `op` is multiplied with quantized input, and whether with floats; where it has no matrix it is to give floats.
inline bool needs_quantized(const LinearOp& op) {
  return std::ranges::any_of(op.parts, [](const auto& part) { return part.weight && cpu::has_panels(part.weight->type); });
}
inline bool needs_floats(const LinearOp& op) {
  return std::ranges::any_of(op.parts, [](const auto& part) { return part.weight && !cpu::has_panels(part.weight->type); }) ||
         !needs_quantized(op);
}

/// Where the members' slices lie that together are `rows` rows: a header each, then so many bytes for each block of the member's columns.
/// Floats are blocks of one column.
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

/// Floats where a matrix of floats is among those to multiply with; else quantized blocks, before which come of each row the sums of
/// squares for an RMSNorm.
inline SliceLayout slices_of(const LinearOp& op) {
  if (needs_floats(op)) return float_slices(op.share, op.rows);
  const std::size_t bytes = sizeof(cpu::EncodedBlock) + (op.norm ? sizeof(float) : 0);
  return {op.share, op.rows, 32, static_cast<std::int64_t>(bytes)};
}
inline SliceLayout slices_of(const AllGatherOp& op) { return float_slices(op.share, op.rows); }

}  // namespace yamata
