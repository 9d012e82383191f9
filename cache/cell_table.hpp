#pragma once
// Which cell holds which token: sequences are tables from position to cell. No keys or values are stored here. So the head can keep
// a copy, and knows without a message what every stage will do.
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace yamata {

using CellId = std::int32_t;
inline constexpr CellId kNoCell = -1;
inline constexpr std::int32_t kUnbounded = std::numeric_limits<std::int32_t>::max();

/// Half-open ranges.
struct SequenceRange {
  std::int32_t begin = 0, end = 1;
  friend bool operator==(const SequenceRange&, const SequenceRange&) = default;
};
struct PositionRange {
  std::int32_t begin = 0, end = kUnbounded;
  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

/// One token of a batch, to be placed.
struct Placement {
  std::int32_t position = 0;
  std::int32_t parent = -1;  ///< earlier token of the same batch that this one follows; -1: it follows its sequences' cells
  SequenceRange sequences;   ///< the sequences that hold it
};

/// The cells of a batch, and the cells that each of its rows sees, including its own.
class BatchCells {
 public:
  std::span<const CellId> cells() const { return cells_; }
  /// Visible cells of row `row`, in position order.
  std::span<const CellId> visible(std::size_t row) const;

 private:
  friend class CellTable;
  friend class WindowCells;
  void clear();
  struct Run {
    std::size_t begin, count;
  };
  std::vector<CellId> cells_, lists_;  // lists_: rows that extend the row before share its list
  std::vector<Run> runs_;
};

/// Cells with a position and a set of sequences. A sequence has at most one cell per position. A cell is free if no sequence holds it.
/// Every operation is one call over ranges, and its result depends only on the earlier operations.
class CellTable {
 public:
  CellTable(std::int32_t cells, std::int32_t sequences);

  std::int32_t cell_count() const;
  std::int32_t sequence_count() const;
  std::int32_t free_cells() const;

  /// Places the tokens in the lowest free cells, in order. A position already held by one of a token's sequences is replaced.
  /// Throws std::length_error, without a change, if too few cells are free; the head checks before it sends.
  /// Throws std::out_of_range for a bad sequence, position or parent.
  void place(std::span<const Placement> batch, BatchCells& out);
  /// Makes each sequence of `to` equal to `from` over `positions`, holes included.
  void copy(std::int32_t from, SequenceRange to, PositionRange positions);
  /// Removes everything but `sequences` x `positions`.
  void keep(SequenceRange sequences, PositionRange positions);
  void remove(SequenceRange sequences, PositionRange positions);
  void clear();

  /// The cell of `sequence` at `position`, or kNoCell.
  CellId at(std::int32_t sequence, std::int32_t position) const;
  /// The first position from which on `sequence` has no cells.
  std::int32_t end(std::int32_t sequence) const;
  /// How many cells at least one of these sequences holds. Reads all their positions.
  std::int32_t held_by(std::span<const std::int32_t> sequences) const;
  /// Whether any sequence holds the cell.
  bool held(CellId cell) const { return holders_.at(static_cast<std::size_t>(cell)) > 0; }

 private:
  void check(std::span<const Placement> batch) const;
  CellId take_lowest_free();
  void view(std::span<const Placement> batch, std::size_t row, BatchCells& out) const;
  void release(CellId cell);
  void hold(std::int32_t sequence, std::int32_t position, CellId cell);

  std::vector<std::vector<CellId>> sequences_;  // position -> cell
  std::vector<std::int32_t> holders_;           // cell -> number of sequences that hold it
  std::int32_t free_ = 0;
  std::int32_t lowest_free_ = 0;
};

}  // namespace yamata
