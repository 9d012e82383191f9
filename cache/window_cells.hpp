#pragma once
// Cells of layers with a sliding window. A cell that no future token can see is reused, so these layers have fewer cells than the table.
#include <cstdint>
#include <span>
#include <vector>

#include "cache/cell_table.hpp"

namespace yamata {

class WindowCells {
 public:
  /// `table_cells`: number of cells of the cell table; `cells`: of these layers; `window`: number of tokens that a token sees, including
  /// itself.
  WindowCells(std::int32_t table_cells, std::int32_t cells, std::int32_t window);

  /// Number of cells needed for runs of `rows` tokens with `guesses` open guesses: the window before the text's next token, the run's own
  /// tokens, and twice the guesses, because rejected guesses stay in the table until the text grows again.
  static std::int64_t enough(std::int64_t window, std::int64_t rows, std::int64_t guesses) { return window - 1 + rows + 2 * guesses; }

  /// Places the tokens in `table` and here. `all`: their cells in the table; `in_window`: their cells here, and what each token sees of the
  /// window. The text is sequence 0, and no token is placed before its end. Throws like CellTable::place, and ClusterError if more cells
  /// are needed than there are.
  void place(CellTable& table, std::span<const Placement> batch, BatchCells& all, BatchCells& in_window);

 private:
  struct Holder {
    CellId of_table = kNoCell;
    std::int32_t position = 0;
  };
  void make_room(const CellTable& table, std::size_t tokens);
  CellId cell_of(CellId of_table) const;
  void view(const BatchCells& all, std::size_t row, BatchCells& in_window) const;

  std::vector<CellId> cell_of_;  // by cell of the table; kNoCell: none
  std::vector<Holder> holders_;  // by cell
  std::vector<CellId> free_;     // the next one last
  std::int32_t window_;
};

}  // namespace yamata
