#pragma once
// A range of the items by which an operation can be divided.
#include <cstdint>

namespace yamata {

/// From `begin` up to `end`, or all after `begin`.
struct OpRange {
  std::int64_t begin = 0, end = -1;
  std::int64_t end_of(std::int64_t count) const { return end < 0 ? count : end; }
  std::int64_t count_of(std::int64_t count) const { return end_of(count) - begin; }
  friend bool operator==(const OpRange&, const OpRange&) = default;
};

}  // namespace yamata
