#pragma once
// --units as it is written.
#include <string>
#include <vector>

#include "launch/planning/units.hpp"

namespace yamata {

/// "cpu:0-3+cpu:4-7", each with "=SHARE" behind it or none; nothing for "auto". Throws UsageError for anything else, for cores that two
/// units name, and for shares that do not add up to 1.
std::vector<UnitSpec> parse_units(const std::string& text);

}  // namespace yamata
