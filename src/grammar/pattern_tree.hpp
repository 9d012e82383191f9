#pragma once
// The parts of a regular expression.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/grammar/characters.hpp"

namespace yamata {

struct PatternNode {
  enum class Kind { kCharacters, kSequence, kAlternatives, kRepeat, kBegin, kEnd };
  Kind kind = Kind::kSequence;
  Characters characters{};
  std::vector<PatternNode> parts{};
  int least = 0;  ///< kRepeat
  std::optional<int> most{};
};

/// Throws UsageError for what is not supported.
PatternNode parse_pattern(std::string_view pattern);

}  // namespace yamata
