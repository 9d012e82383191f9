#pragma once
// The layouts that yamata plan found, as a table and as JSON.
#include <span>
#include <string>
#include <vector>

#include "launch/commands/plan_options.hpp"
#include "launch/program/planning/layout_planner.hpp"

namespace yamata {

/// The flags with which a job has this layout, if its ranks are started on these hosts in this order.
std::string layout_flags(const LayoutCandidate& candidate);
/// The command that starts such a job, with the flags that `plan` got and the job knows, for a shell.
std::string run_command_line(const LayoutCandidate& candidate, std::span<const PlannedHost> hosts, const PlanOptions& plan);

/// A row per layout: its hosts, the target's layers of each stage, and what is forecast for so many texts at a time.
std::string to_table(std::span<const Forecast> forecasts, std::span<const PlannedHost> hosts, int requests = 1);
/// The measured results of groups, in one line. `why_none`: why no group of these hosts is ever benchmarked, if so.
std::string benchmark_words(std::span<const GroupCost> costs, const std::string& why_none);

}  // namespace yamata
