#pragma once
// Counts with their nouns, in words.
#include <cstdint>
#include <string>
#include <string_view>

namespace yamata {

/// "1 rank", "3 ranks".
inline std::string counted(std::int64_t count, std::string_view thing) {
  return std::to_string(count) + ' ' + std::string(thing) + (count == 1 ? "" : "s");
}

}  // namespace yamata
