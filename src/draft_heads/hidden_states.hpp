#pragma once
// Hidden states that rows of draft heads store for their children.
#include <cstdint>
#include <span>
#include <vector>

#include "node/memory.hpp"
#include "src/model/stage_model.hpp"

namespace yamata::draft_heads {

/// A hidden state per cell of the cache: [cells][dim].
class HiddenStates {
 public:
  HiddenStates(std::int32_t cells, std::int64_t dim);

  /// Stores the hidden states of the previous run, `rows` [cells of that run][dim]; those of a stopped run are undefined, and have no
  /// children. `cells`: the cells of the run that begins.
  void keep(const float* rows, std::span<const CellId> cells);
  /// Copies the hidden state of a cell to [dim]; zeros for kNoCell.
  void give(CellId cell, float* out) const;
  std::size_t dim() const { return row_bytes_ / sizeof(float); }

 private:
  std::size_t row_bytes_;
  PageMemory states_;
  std::vector<CellId> last_cells_;  // of the run before
};

}  // namespace yamata::draft_heads
