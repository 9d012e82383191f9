#pragma once
// --units as it is written.
#include <optional>
#include <string>
#include <vector>

#include "launch/planning/units.hpp"

namespace yamata {

/// "cpu:0-3+cpu:4-7", "cpu+cuda:0", each with "=SHARE" behind it or none; nothing for "auto". Throws UsageError for anything else, for
/// cores or devices that two units name, and for shares that do not add up to 1.
std::vector<UnitSpec> parse_units(const std::string& text);
/// -ngl beside these units; nothing for "auto". Throws UsageError for what is no number of layers, and where the units are not one device,
/// without a share, and cores.
std::optional<int> parse_gpu_layers(const std::string& text, const std::vector<UnitSpec>& specs);
/// Where -t is given. Throws UsageError where no unit asks for a number of threads.
void require_idle_threads(const std::vector<UnitSpec>& specs);

}  // namespace yamata
