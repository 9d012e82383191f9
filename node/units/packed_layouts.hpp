#pragma once
// Matrices packed for several units. Units with the same instruction set have the same layout; the memory of a packed matrix contains all
// layouts, one after another.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "node/compute_unit.hpp"
#include "node/op.hpp"
#include "node/units/cut.hpp"

namespace yamata {

class PackedLayouts {
 public:
  /// The units outlive this.
  explicit PackedLayouts(std::span<const std::unique_ptr<ComputeUnit>> units);

  /// Bytes of a matrix packed for all units, with each layout counted once.
  std::size_t bytes(const Matrix& matrix) const;
  /// `count` matrices in the layout of a unit; null if `first` is. The result is valid until clear().
  const Matrix* of_unit(std::size_t unit, const Matrix* first, std::int64_t count);
  void clear() { matrices_.clear(); }
  /// Appends the packing of a matrix to the units' lists. Each unit packs the rows with which it will most likely multiply (`rows`), so
  /// that they are in the memory of its NUMA node. Units with the same layout share them.
  void divide(const PackOp& op, const Cut& rows, std::span<std::vector<Op>> lists) const;

 private:
  std::size_t bytes_before(std::size_t layout, const Matrix& matrix) const;

  std::vector<std::size_t> layout_of_;           // [unit]
  std::vector<const ComputeUnit*> layout_unit_;  // [layout]: a unit with this layout
  std::deque<std::vector<Matrix>> matrices_;     // descriptions of matrices for units with a layout of their own
};

}  // namespace yamata
