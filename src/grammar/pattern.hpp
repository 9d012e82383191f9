#pragma once
// Regular expressions of JSON Schema, as deterministic automata over characters.
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/grammar/characters.hpp"

namespace yamata {

/// State 0 is the start. The characters of a state's steps do not overlap.
struct CharacterAutomaton {
  struct Step {
    Characters characters;
    std::uint32_t to;
  };
  struct State {
    bool accepting = false;
    std::vector<Step> steps;
  };
  std::vector<State> states;
};

/// The strings in which the pattern is found, as ECMAScript reads it with the flag u. Without look-around, word boundaries, back references
/// and properties of characters, which are refused; ^ and $ only at the ends of alternatives. \d, \w and \s are ASCII, and their
/// complements too, so that other dialects agree. Throws UsageError, in a line that begins with "'pattern'", if it cannot be used.
CharacterAutomaton compile_pattern(std::string_view pattern);

}  // namespace yamata
