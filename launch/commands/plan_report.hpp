#pragma once
// The layouts that yamata plan found, for people and for programs.
#include <span>
#include <string>
#include <vector>

#include "launch/planning/layout_planner.hpp"

namespace yamata {

/// "node1+node2,node3/node4": as --layer-split, with names in place of shares.
std::string host_names(const LayoutCandidate& candidate, std::span<const PlannedHost> hosts);
/// The flags that make a job take this layout, its ranks started on these hosts in this order.
std::string layout_flags(const LayoutCandidate& candidate);
/// The command that starts it.
std::string run_command_line(const LayoutCandidate& candidate, std::span<const PlannedHost> hosts, const std::string& model,
                             const std::string& draft_model);

std::string to_table(std::span<const Forecast> forecasts, std::span<const PlannedHost> hosts);
std::string to_json(std::span<const Forecast> forecasts, std::span<const PlannedHost> hosts);

}  // namespace yamata
