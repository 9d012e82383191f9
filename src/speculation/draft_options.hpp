#pragma once
// How a drafter searches.
#include <cstdint>

namespace yamata {

struct DraftOptions {
  std::int32_t width = 4;     ///< most nodes that one evaluation of the draft model expands
  std::int32_t children = 4;  ///< guesses per expanded node, the most probable ones
  std::int32_t credit = 48;   ///< guesses that may be open at a time
  float threshold = 0.01f;    ///< least path probability, in the draft's own view, worth expanding
};

}  // namespace yamata
