#include "src/model/picked_cells.hpp"

#include <algorithm>

namespace yamata {

/// How many of so many cells a row attends to.
std::size_t PickedCells::attended(std::size_t seen) const {
  const auto most = static_cast<std::size_t>(most_), block = static_cast<std::size_t>(block_);
  return std::min(seen / block, most / block) * block + seen % block;
}

void PickedCells::place(std::span<const std::span<const CellId>> visible, CellId* memory) {
  rows_.clear();
  visible_ = visible, memory_ = memory;
  if (most_ == 0 || std::ranges::all_of(visible, [&](const auto& cells) { return attended(cells.size()) == cells.size(); })) return;
  for (const auto& cells : visible) {
    const std::size_t count = attended(cells.size());
    rows_.emplace_back(memory, count);
    memory += count;
  }
}

void PickedCells::append_places(std::vector<float>& places) const {
  for (std::size_t row = 0; row < visible_.size(); ++row) {
    const std::size_t before = places.size();
    std::size_t place = 0;
    for (std::size_t i = 0; !rows_.empty() && i < rows_[row].size(); ++i) {
      while (visible_[row][place] != rows_[row][i]) ++place;  // both are in position order
      places.push_back(static_cast<float>(place));
    }
    places.resize(before + static_cast<std::size_t>(most_));
  }
}

void PickedCells::take_places(std::span<const float> places) {
  CellId* to = memory_;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const auto seen = static_cast<float>(visible_[row].size());
    for (std::size_t i = 0; i < rows_[row].size(); ++i) {
      const float place = places[row * static_cast<std::size_t>(most_) + i];
      *to++ = visible_[row][place >= 0 && place < seen ? static_cast<std::size_t>(place) : 0];
    }
  }
}

}  // namespace yamata
