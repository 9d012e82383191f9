#pragma once
// The layouts that yamata plan found, for people and for programs.
#include <span>
#include <string>
#include <vector>

#include "launch/planning/layout_planner.hpp"

namespace yamata {

/// The flags that make a job take this layout, its ranks started on these hosts in this order.
std::string layout_flags(const LayoutCandidate& candidate);
/// The command that starts it.
std::string run_command_line(const LayoutCandidate& candidate, std::span<const PlannedHost> hosts, const std::string& model,
                             const std::string& draft_model);

std::string to_table(std::span<const Forecast> forecasts, std::span<const PlannedHost> hosts);
/// What is known of groups, in a line.
std::string rehearsal_words(std::span<const GroupCost> costs);

}  // namespace yamata
