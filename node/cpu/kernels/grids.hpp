#pragma once
// The groups of weights that the small IQ formats know, by number. A group's magnitudes, the first in the lowest bits: of IQ2 two bits
// each (8, 25 or 43), of IQ3 three bits each (its values in blocks.hpp), of IQ1 two bits each (-1, 0 or 1, plus one).
#include <cstdint>

namespace yamata::cpu {

extern const std::uint16_t kIq2XxsGrid[256], kIq2XsGrid[512], kIq2SGrid[1024];  ///< of 8 weights
extern const std::uint16_t kIq3XxsGrid[256], kIq3SGrid[512];                    ///< of 4
extern const std::uint16_t kIq1Grid[2048];                                      ///< of 8

}  // namespace yamata::cpu
