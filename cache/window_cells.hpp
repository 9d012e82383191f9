#pragma once
// Cells of layers with a sliding window. A cell that no future token can see is reused, so these layers have fewer cells than the table.
#include <cstdint>
#include <span>
#include <vector>

#include "cache/cell_table.hpp"
#include "cache/text_slots.hpp"

namespace yamata {

/// These layers keep the windows of texts and checkpoints: the cells that a next token of theirs would see, and those after them.
class WindowCells {
 public:
  /// `table_cells`: number of cells of the cell table; `cells`: of these layers; `window`: number of tokens that a token sees, including
  /// itself; `texts`: the table's.
  WindowCells(std::int32_t table_cells, std::int32_t cells, std::int32_t window, TextSlots texts = {});

  /// Number of cells needed for `texts` texts and checkpoints, and runs of `rows` tokens with `guesses` open guesses of all texts: the
  /// window before the next token of each, the run's own tokens, and twice the guesses, because rejected guesses stay in the table until
  /// their text grows again.
  static std::int64_t enough(std::int64_t window, std::int64_t rows, std::int64_t guesses, std::int64_t texts = 1) {
    return texts * (window - 1) + rows + 2 * guesses;
  }

  /// Places the tokens in `table` and here. `all`: their cells in the table; `in_window`: their cells here, and what each token sees of the
  /// window. No token is placed before the end of its text. Throws like CellTable::place, and ClusterError if more cells are needed than
  /// there are.
  void place(CellTable& table, std::span<const Placement> batch, BatchCells& all, BatchCells& in_window);

 private:
  struct Holder {
    CellId of_table = kNoCell;
    std::int32_t position = 0;
    std::int32_t slot = 0;  // whose text placed it
  };
  void make_room(const CellTable& table, std::size_t tokens);
  bool in_a_window(const CellTable& table, const Holder& holder) const;
  CellId cell_of(CellId of_table) const;
  void view(const BatchCells& all, std::size_t row, BatchCells& in_window) const;

  std::vector<CellId> cell_of_;  // by cell of the table; kNoCell: none
  std::vector<Holder> holders_;  // by cell
  std::vector<CellId> free_;     // the next one last
  std::int32_t window_;
  const TextSlots texts_;
};

}  // namespace yamata
