#pragma once
// What the rows of heads leave for the rows of their children.
#include <cstdint>
#include <span>
#include <vector>

#include "node/memory.hpp"
#include "src/model/stage_model.hpp"

namespace yamata::heads {

/// A hidden state per cell of the cache: [cells][dim].
class HiddenStates {
 public:
  HiddenStates(std::int32_t cells, std::int64_t dim);

  /// What the rows of the run before have left, `rows` [cells of that run][dim]. Of a run that was given up it is anything, and has no
  /// children. `cells`: those of the run that begins.
  void keep(const float* rows, std::span<const CellId> cells);
  /// That of a cell, to [dim]; of kNoCell zeros.
  void give(CellId cell, float* out) const;
  std::size_t dim() const { return row_bytes_ / sizeof(float); }

 private:
  std::size_t row_bytes_;
  PageMemory states_;
  std::vector<CellId> last_cells_;  // of the run before
};

}  // namespace yamata::heads
