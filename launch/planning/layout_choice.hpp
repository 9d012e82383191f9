#pragma once
// The layout of a job whose flags leave it open, chosen among those that the planner plays.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/planning/layout_planner.hpp"
#include "mpi/cluster/link_probe.hpp"
#include "mpi/protocol/wire.hpp"

namespace yamata {

/// The machines of a job as their ranks describe them, one per rank; `links`: of each rank with the first; `layer_bytes`: what a layer
/// takes of a device that has it whole. Empty where a rank has not been measured, or has not all `models` of the job.
std::vector<PlannedHost> planned_hosts(const std::vector<wire::Hello>& hellos, std::span<const Link> links, std::uint64_t layer_bytes = 0);

/// What was chosen.
struct LayoutChoice {
  LayoutCandidate candidate;
  std::string why;        ///< one line: what it is, what is expected of it and of the next best, who stays out
  std::string plan_json;  ///< the best, and what they stand on, see plan_file.hpp
};

/// The fastest, or a simpler one that is nearly as fast: fewer machines, no drafter, no groups. More machines than the first alone must
/// promise more than the forecasts are wrong by. Nothing where no layout has room.
std::optional<LayoutChoice> choose_layout(const PlannedJob& job, std::span<const PlannedHost> hosts);

}  // namespace yamata
