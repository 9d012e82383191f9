#pragma once
// The cells that rows of a run pick of those that they see (sparse attention).
#include <span>
#include <vector>

#include "cache/cell_table.hpp"

namespace yamata {

class PickedCells {
 public:
  /// `most`: cells that a row attends to; 0: all that it sees. With blocks of more than one cell, it attends to as many whole blocks, and
  /// to the cells after the last one.
  explicit PickedCells(std::int64_t most, std::int64_t block = 1) : most_(most), block_(block) {}

  /// Before a run: whether a row sees more cells than it attends to, and then where those that rows pick are written: in `memory`,
  /// [rows][most + block - 1], one row after another. Both must outlive the run.
  void place(std::span<const std::span<const CellId>> visible, CellId* memory);
  /// [rows]; null: all rows attend to all that they see.
  const std::span<const CellId>* rows() const { return rows_.empty() ? nullptr : rows_.data(); }

  /// Appends the picked cells for another stage, whose cells have other numbers: [rows][most], each as its place among those that the row
  /// sees.
  void append_places(std::vector<float>& places) const;
  /// Fills the memory with the cells that another stage picked.
  void take_places(std::span<const float> places);

 private:
  std::size_t attended(std::size_t seen) const;

  std::int64_t most_, block_;
  CellId* memory_ = nullptr;
  std::span<const std::span<const CellId>> visible_;
  std::vector<std::span<const CellId>> rows_;
};

}  // namespace yamata
