#pragma once
// The cells that rows of a run pick of those that they see (sparse attention).
#include <span>
#include <vector>

#include "cache/cell_table.hpp"

namespace yamata {

class PickedCells {
 public:
  /// `most`: cells that a row attends to; 0: all that it sees.
  explicit PickedCells(std::int64_t most) : most_(most) {}

  /// Before a run: whether a row sees more cells than it attends to, and then where those that rows pick are written: in `memory`,
  /// [rows][most], one row after another. Both must outlive the run.
  void place(std::span<const std::span<const CellId>> visible, CellId* memory);
  /// [rows]; null: all rows attend to all that they see.
  const std::span<const CellId>* rows() const { return rows_.empty() ? nullptr : rows_.data(); }

  /// Appends the picked cells for another stage, whose cells have other numbers: [rows][most], each as its place among those that the row
  /// sees.
  void append_places(std::vector<float>& places) const;
  /// Fills the memory with the cells that another stage picked.
  void take_places(std::span<const float> places);

 private:
  std::int64_t most_;
  CellId* memory_ = nullptr;
  std::span<const std::span<const CellId>> visible_;
  std::vector<std::span<const CellId>> rows_;
};

}  // namespace yamata
