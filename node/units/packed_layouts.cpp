#include "node/units/packed_layouts.hpp"

#include <algorithm>

namespace yamata {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

PackedLayouts::PackedLayouts(std::span<const std::unique_ptr<ComputeUnit>> units) {
  for (const auto& unit : units) {
    const auto same = std::ranges::find_if(layout_unit_, [&](const ComputeUnit* other) { return other->isa() == unit->isa(); });
    layout_of_.push_back(static_cast<std::size_t>(same - layout_unit_.begin()));
    if (same == layout_unit_.end()) layout_unit_.push_back(unit.get());
  }
}

std::size_t PackedLayouts::bytes_before(std::size_t layout, const Matrix& matrix) const {
  std::size_t bytes = 0;
  for (std::size_t before = 0; before < layout; ++before) bytes += aligned(layout_unit_[before]->packed_bytes(matrix));
  return bytes;
}

std::size_t PackedLayouts::bytes(const Matrix& matrix) const {
  return layout_unit_.size() == 1 ? layout_unit_[0]->packed_bytes(matrix) : bytes_before(layout_unit_.size(), matrix);
}

const Matrix* PackedLayouts::of_unit(std::size_t unit, const Matrix* first, std::int64_t count) {
  if (layout_unit_.size() == 1 || !first) return first;
  const std::size_t layout = layout_of_[unit];
  std::vector<Matrix>& own = matrices_.emplace_back(first, first + count);
  for (Matrix& m : own) {
    if (m.packed) m.packed = layout_unit_[layout]->packed_bytes(m) > 0 ? m.packed + bytes_before(layout, m) : nullptr;
  }
  return own.data();
}

void PackedLayouts::divide(const PackOp& op, const Cut& rows, std::span<std::vector<Op>> lists) const {
  for (std::size_t layout = 0; layout < layout_unit_.size(); ++layout) {
    if (layout_unit_[layout]->packed_bytes(*op.matrix) == 0) continue;
    std::vector<double> shares;
    std::vector<std::size_t> packers;
    for (std::size_t unit = 0; unit < layout_of_.size(); ++unit) {
      if (layout_of_[unit] != layout) continue;
      packers.push_back(unit);
      shares.push_back(static_cast<double>(rows.count(unit)) + 1e-9);
    }
    std::vector<std::int64_t> cuts(packers.size() + 1);
    cut_by_shares(op.matrix->rows, kCutGrain, shares, cuts);
    for (std::size_t i = 0; i < packers.size(); ++i)
      lists[packers[i]].push_back(PackOp{op.matrix, op.to + bytes_before(layout, *op.matrix), {cuts[i], cuts[i + 1]}});
  }
}

}  // namespace yamata
