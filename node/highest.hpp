#pragma once
// The highest of some values, as greedy decoding reads it. Valid as C++17.
#include <cstdint>
#include <limits>

namespace yamata {

/// Of equal values the first. Column -1: no value is a number above minus infinity.
struct Highest {
  std::int32_t column = -1;
  float value = -std::numeric_limits<float>::infinity();
};

}  // namespace yamata
