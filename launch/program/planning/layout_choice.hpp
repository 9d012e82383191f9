#pragma once
// Chooses the layout of a job, if its flags leave it open, among those that the planner simulates.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/program/planning/layout_planner.hpp"
#include "mpi/cluster/link_probe.hpp"
#include "mpi/protocol/wire.hpp"

namespace yamata {

/// The machines of a job as described by their ranks, one per rank. `links`: of each rank to the first; `layer_bytes`: memory of a device
/// per layer that it computes alone. Empty if a rank has not been measured, or does not have all `models` of the job.
std::vector<PlannedHost> planned_hosts(const std::vector<wire::Hello>& hellos, std::span<const Link> links, std::uint64_t layer_bytes = 0);

/// The chosen layout.
struct LayoutChoice {
  LayoutCandidate candidate;
  double simulated_tokens_per_s = 0;  ///< its forecast without correction
  std::string why;                    ///< one line: the layout, the expected speed of it and of the next best, and the idle hosts
  std::string plan_json;              ///< the best layouts and the numbers that they are based on, see plan_file.hpp
};

/// The fastest layout, or a simpler one that is nearly as fast: fewer machines, no drafter, no groups. Layouts with more machines than the
/// first must be better by more than the error of forecasts. Nothing if no layout fits.
std::optional<LayoutChoice> choose_layout(const PlannedJob& job, std::span<const PlannedHost> hosts);

}  // namespace yamata
