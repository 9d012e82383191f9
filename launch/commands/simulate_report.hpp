#pragma once
// The results of simulations, as a table and as JSON.
#include <string>
#include <utility>
#include <vector>

#include "launch/commands/simulated_row.hpp"

namespace yamata {

/// The inputs of the rows, by the names of the flags.
using SimulatedFrom = std::vector<std::pair<std::string, double>>;

/// `several`: the rows are of several texts.
std::string to_table(const std::vector<SimulatedRow>& rows, bool several = false);
std::string to_csv(const std::vector<SimulatedRow>& rows);
std::string to_json(const std::vector<SimulatedRow>& rows, const SimulatedFrom& from);

}  // namespace yamata
