#pragma once
// A change of the cell table as data, so that it can be sent in the ordered stream and applied by every stage in the same way.
#include <cstdint>

#include "cache/cell_table.hpp"

namespace yamata {

struct CacheOperation {
  enum class Kind : std::uint8_t { kCopy, kKeep, kRemove, kClear };
  Kind kind = Kind::kClear;
  std::int32_t from = 0;    ///< kCopy: the source sequence
  SequenceRange sequences;  ///< kCopy: the destinations; kKeep, kRemove: the affected sequences
  PositionRange positions;  ///< the affected positions

  static CacheOperation copy(std::int32_t from, SequenceRange to, PositionRange positions) { return {Kind::kCopy, from, to, positions}; }
  static CacheOperation keep(SequenceRange sequences, PositionRange positions) { return {Kind::kKeep, 0, sequences, positions}; }
  static CacheOperation remove(SequenceRange sequences, PositionRange positions) { return {Kind::kRemove, 0, sequences, positions}; }
  static CacheOperation clear() { return {}; }
  friend bool operator==(const CacheOperation&, const CacheOperation&) = default;
};

/// Throws std::out_of_range for sequences the table lacks.
void apply(const CacheOperation& operation, CellTable& cells);

}  // namespace yamata
