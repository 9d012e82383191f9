#include "cache/window_cells.hpp"

#include <algorithm>
#include <numeric>

#include "node/error.hpp"

namespace yamata {

WindowCells::WindowCells(std::int32_t table_cells, std::int32_t cells, std::int32_t window, TextSlots texts)
    : cell_of_(static_cast<std::size_t>(table_cells), kNoCell),
      holders_(static_cast<std::size_t>(cells)),
      free_(static_cast<std::size_t>(cells)),
      window_(window),
      texts_(texts) {
  std::iota(free_.rbegin(), free_.rend(), 0);
}

/// If there are too few free cells, takes cells from tokens that were removed or are before every future window.
void WindowCells::make_room(const CellTable& table, std::size_t tokens) {
  if (free_.size() >= tokens) return;
  for (std::size_t cell = 0; cell < holders_.size(); ++cell) {
    Holder& holder = holders_[cell];
    if (holder.of_table == kNoCell || in_a_window(table, holder)) continue;
    cell_of_[static_cast<std::size_t>(holder.of_table)] = kNoCell;
    holder.of_table = kNoCell;
    free_.push_back(static_cast<CellId>(cell));
  }
  if (free_.size() < tokens) throw ClusterError("a run of more tokens than layers with a window have free cells");
}

/// Whether a next token of a text or of a checkpoint could see it, or one after a guess. Texts share cells of a common beginning, which one
/// of them has placed; guesses only follow their own text.
bool WindowCells::in_a_window(const CellTable& table, const Holder& holder) const {
  const auto holds = [&](std::int32_t sequence) { return table.at(sequence, holder.position) == holder.of_table; };
  const auto sees = [&](std::int32_t sequence) { return holder.position > table.end(sequence) - window_; };
  const std::int32_t own = texts_.text_of(holder.slot);
  if (holds(own) && sees(own)) return true;
  if (!table.held(holder.of_table)) return false;
  for (std::int32_t slot = 0; slot < texts_.slots; ++slot) {
    const std::int32_t text = texts_.text_of(slot);
    if (holds(text) && sees(text)) return true;
  }
  for (std::int32_t kept = texts_.first_checkpoint(table); kept < table.sequence_count(); ++kept) {
    if (holds(kept) && sees(kept)) return true;
  }
  if (!sees(own)) return false;
  const SequenceRange guesses = texts_.guesses_of(holder.slot, table);
  for (std::int32_t sequence = guesses.begin; sequence < guesses.end; ++sequence) {
    if (holds(sequence)) return true;
  }
  return false;
}

/// The tokens of a skipped run have no cell here. Their results are not used, so any cell may be returned.
CellId WindowCells::cell_of(CellId of_table) const { return std::max(0, cell_of_[static_cast<std::size_t>(of_table)]); }

/// The last cells of the row's view. A row that extends the row before shares that row's list.
void WindowCells::view(const BatchCells& all, std::size_t row, BatchCells& in_window) const {
  const std::span<const CellId> seen = all.visible(row);
  const std::size_t count = std::min(static_cast<std::size_t>(window_), seen.size());
  const auto extends_last = [&] {
    if (row == 0) return false;
    const std::span<const CellId> last = all.visible(row - 1);
    return last.data() == seen.data() && last.size() + 1 == seen.size();
  };
  for (const CellId cell : seen.last(extends_last() ? 1 : count)) in_window.lists_.push_back(cell_of(cell));
  in_window.runs_.push_back({in_window.lists_.size() - count, count});
}

void WindowCells::place(CellTable& table, std::span<const Placement> batch, BatchCells& all, BatchCells& in_window) {
  make_room(table, batch.size());
  table.place(batch, all);
  in_window.clear();
  for (std::size_t row = 0; row < batch.size(); ++row) {
    const CellId of_table = all.cells()[row];
    CellId& cell = cell_of_[static_cast<std::size_t>(of_table)];
    if (cell == kNoCell) {
      cell = free_.back();
      free_.pop_back();
    }
    holders_[static_cast<std::size_t>(cell)] = {of_table, batch[row].position, texts_.slot_of(batch[row].sequences.begin)};
    in_window.cells_.push_back(cell);
    view(all, row, in_window);
  }
}

}  // namespace yamata
