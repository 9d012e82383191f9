#pragma once
// Blocks of tokens that have a key of the index together (sparse attention of Qwen3.8-Flash-Next).
#include <span>
#include <vector>

#include "cache/cell_table.hpp"

namespace yamata {

/// A text's first `block` tokens are its first block, and so on. A block's key is that of its last token's cell, so guesses beside one
/// another have their own. Until its last token is there, the cells hold the tokens' own keys, of which it is made.
class KeyBlocks {
 public:
  /// `block`: tokens of a block; 0: no layer has blocks.
  explicit KeyBlocks(std::int64_t block) : block_(block) {}

  /// Before a run, which `visible` must outlive: finds the whole blocks that its rows see, and those that end with its rows.
  void place(std::span<const std::span<const CellId>> visible);
  /// [rows]: the last cells of the whole blocks that each row sees, in position order; null: there are no blocks.
  const std::span<const CellId>* last_cells() const { return block_ > 0 ? last_cells_.data() : nullptr; }

  /// Of the run's rows, those that end a block.
  std::int64_t ended() const { return std::ssize(ends_); }
  /// [ended]: their cells.
  const CellId* ends() const { return ends_.data(); }
  /// [ended]: the cells of their blocks.
  const std::span<const CellId>* members() const { return members_.data(); }
  /// [ended]: positions of their blocks' first tokens.
  std::span<const std::int32_t> first_positions() const { return first_positions_; }

 private:
  void list_last_cells(std::span<const std::span<const CellId>> visible);

  std::int64_t block_;
  std::vector<CellId> lists_, ends_;  // lists_: rows that see the beginning of one list share its blocks
  std::vector<std::span<const CellId>> last_cells_, members_;
  std::vector<std::int32_t> first_positions_;
};

}  // namespace yamata
