#pragma once
// Cells of layers whose tokens see a window of those before them. A cell that no token to come can see is used again, so there are fewer of
// them than the table has.
#include <cstdint>
#include <span>
#include <vector>

#include "cache/cell_table.hpp"

namespace yamata {

class WindowCells {
 public:
  /// `table_cells`: of the table that says which tokens there are; `cells`: of these layers; `window`: tokens that a token sees, itself
  /// among them.
  WindowCells(std::int32_t table_cells, std::int32_t cells, std::int32_t window);

  /// Cells that are enough for runs of `rows` tokens and `guesses` guesses at a time: the window before the text's next token, the run's
  /// own tokens, and guesses twice, because those that the text has passed by stay in the table until it grows again.
  static std::int64_t enough(std::int64_t window, std::int64_t rows, std::int64_t guesses) { return window - 1 + rows + 2 * guesses; }

  /// Places the tokens in `table` and here. `all`: as the table has them; `in_window`: their cells here, and what each sees of the window.
  /// The text is sequence 0, and no token comes before its end. Throws as CellTable::place does, and ClusterError where more cells are
  /// needed than there are.
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
