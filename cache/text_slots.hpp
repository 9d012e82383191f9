#pragma once
// Which of a table's sequences belong to which text, if several texts share the table.
#include <algorithm>
#include <cstdint>

#include "cache/cell_table.hpp"

namespace yamata {

/// A slot is a place for a text. Of its sequences, the first holds the text, and each other may hold a path of guesses. Slots follow each
/// other from sequence 0 on. The last sequences of the table are those of checkpoints.
struct TextSlots {
  std::int32_t slots = 1;
  std::int32_t each = 1;  ///< sequences of a slot; the last slot has all that are left
  /// in layers with windows or states: how many texts, or beginnings of texts, stay in the cache as they were at their end, so that another
  /// text can go on from there
  std::int32_t checkpoints = 0;

  std::int32_t slot_of(std::int32_t sequence) const { return std::clamp(sequence / each, 0, slots - 1); }
  /// The sequence that holds its text.
  std::int32_t text_of(std::int32_t slot) const { return slot * each; }
  /// Those that may hold its guesses.
  SequenceRange guesses_of(std::int32_t slot, const CellTable& table) const {
    return {text_of(slot) + 1, slot + 1 < slots ? text_of(slot + 1) : first_checkpoint(table)};
  }
  std::int32_t first_checkpoint(const CellTable& table) const { return table.sequence_count() - checkpoints; }
};

}  // namespace yamata
