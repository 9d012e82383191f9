#pragma once
// The results of yamata profile --units, as a table and as JSON.
#include <string>
#include <vector>

#include "launch/program/planning/unit_profile.hpp"
#include "launch/program/planning/units.hpp"

namespace yamata {

std::string to_table(const UnitProfile& profile, const std::vector<UnitSpec>& specs);
std::string to_json(const UnitProfile& profile, const std::vector<UnitSpec>& specs);

}  // namespace yamata
