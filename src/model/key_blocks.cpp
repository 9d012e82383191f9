#include "src/model/key_blocks.hpp"

namespace yamata {

void KeyBlocks::list_last_cells(std::span<const std::span<const CellId>> visible) {
  struct Range {
    std::size_t begin, count;
  };
  std::vector<Range> ranges;
  const auto block = static_cast<std::size_t>(block_);
  lists_.clear();
  std::size_t begin = 0;
  for (std::size_t row = 0; row < visible.size(); ++row) {
    const std::span<const CellId> cells = visible[row];
    if (row == 0 || cells.data() != visible[row - 1].data()) begin = lists_.size();
    const std::size_t count = cells.size() / block;
    for (std::size_t i = lists_.size() - begin; i < count; ++i) lists_.push_back(cells[(i + 1) * block - 1]);
    ranges.push_back({begin, count});
  }
  last_cells_.clear();
  for (const auto& [first, count] : ranges) last_cells_.push_back(std::span<const CellId>(lists_).subspan(first, count));
}

void KeyBlocks::place(std::span<const std::span<const CellId>> visible) {
  if (block_ == 0) return;
  const auto block = static_cast<std::size_t>(block_);
  list_last_cells(visible);
  ends_.clear(), members_.clear(), first_positions_.clear();
  for (const std::span<const CellId> cells : visible) {
    if (cells.size() % block != 0) continue;
    ends_.push_back(cells.back());
    members_.push_back(cells.last(block));
    first_positions_.push_back(static_cast<std::int32_t>(cells.size() - block));
  }
}

}  // namespace yamata
