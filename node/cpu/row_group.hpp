#pragma once
// One group of one row of a quantized matrix, opened: what repacking and the reference kernel start from.
#include <cstdint>

#include "node/cpu/blocks.hpp"

namespace yamata::cpu {

struct RowGroup {
  std::uint16_t d = 0, m = 0;  ///< half floats
  std::uint8_t scales[16]{};   ///< as they are written: [block] or [block][run]
  std::uint8_t minima[16]{};
  std::uint32_t steps[8][8]{};  ///< [block][step]: 4 numbers, a byte each, the first lowest
};

/// Opens a block of the file.
void open(const BlockQ4_0& block, RowGroup& group);
void open(const BlockQ4_1& block, RowGroup& group);
void open(const BlockQ5_0& block, RowGroup& group);
void open(const BlockQ5_1& block, RowGroup& group);
void open(const BlockQ8_0& block, RowGroup& group);
void open(const BlockQ2K& block, RowGroup& group);
void open(const BlockQ3K& block, RowGroup& group);
void open(const BlockQ4K& block, RowGroup& group);
void open(const BlockQ5K& block, RowGroup& group);
void open(const BlockQ6K& block, RowGroup& group);
void open(const BlockIQ4NL& block, RowGroup& group);
void open(const BlockIQ4XS& block, RowGroup& group);

}  // namespace yamata::cpu
