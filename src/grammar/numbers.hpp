#pragma once
// Numbers of JSON between two bounds.
#include <optional>
#include <string>
#include <string_view>

#include "src/grammar/byte_automaton.hpp"

namespace yamata {

/// A decimal number: its digits before the point without leading zeros (at least one), and those after it without zeros at the end.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
  bool zero() const { return whole == "0" && fraction.empty(); }
};

/// `text`: a number as JSON writes it, also with an exponent. Nothing if it has more than 400 digits without one.
std::optional<Decimal> read_decimal(std::string_view text);

struct Bound {
  Decimal value;
  bool exclusive = false;
};
struct NumberRange {
  std::optional<Bound> least, most;
};

/// Reads an integer of the range with at most 18 digits.
void add_integer(ByteAutomaton& automaton, NodeIndex from, const NumberRange& range, NodeIndex to);
/// Reads a number of the range, with at most 14 digits before the point and as many after it as a double surely holds; with an exponent
/// only if the range has no bounds.
void add_number(ByteAutomaton& automaton, NodeIndex from, const NumberRange& range, NodeIndex to);

}  // namespace yamata
