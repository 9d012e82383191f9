#include "src/draft_heads/hidden_states.hpp"

#include <cstring>

namespace yamata::draft_heads {

HiddenStates::HiddenStates(std::int32_t cells, std::int64_t dim)
    : row_bytes_(static_cast<std::size_t>(dim) * sizeof(float)), states_(static_cast<std::size_t>(cells) * row_bytes_) {}

void HiddenStates::keep(const float* rows, std::span<const CellId> cells) {
  for (std::size_t row = 0; row < last_cells_.size(); ++row)
    std::memcpy(states_.data() + static_cast<std::size_t>(last_cells_[row]) * row_bytes_, rows + row * dim(), row_bytes_);
  last_cells_.assign(cells.begin(), cells.end());
}

void HiddenStates::give(CellId cell, float* out) const {
  if (cell == kNoCell)
    std::memset(out, 0, row_bytes_);
  else
    std::memcpy(out, states_.data() + static_cast<std::size_t>(cell) * row_bytes_, row_bytes_);
}

}  // namespace yamata::draft_heads
