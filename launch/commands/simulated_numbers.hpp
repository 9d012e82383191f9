#pragma once
// The simulated cluster, as numbers.
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "launch/commands/measured_run.hpp"
#include "launch/program/planning/group_cost.hpp"
#include "launch/program/planning/plan_file.hpp"

namespace yamata {

/// The initial values are defaults.
struct SimulatedNumbers {
  double target_ms = 400, draft_ms = 0, head_ms = 0.05, acceptance = 0.65;
  std::optional<double> acceptance4;  ///< empty: the draft's next three guesses contain 58 % of the tokens that are not its first guess
  int layers = 32, drafters = 1, prompt = 64, generate = 128;
  std::vector<int> ranks{2, 4, 8};
  bool draft_heads = false;  ///< the drafters are draft heads, if --from has them
  simulation::NetworkOptions network;
  simulation::RowWidths widths;
  double exchange_bytes = simulation::Scenario().exchange_bytes;
  std::vector<GroupCost> group_costs;      ///< from group benchmarks
  simulation::NetworkOptions benchmarked;  ///< the network on which they were measured
  std::map<int, double> slow;              ///< rank -> factor
  std::vector<int> groups;                 ///< ranks of each stage, if --from has them
  /// measured time of each rank of these stages, including exchanges, and time of its exchanges; only valid for the same stages
  std::vector<double> stage_ms, exchange_ms;
  simulation::WidthCost width, draft_width;
  bool width_of_computing = true;             ///< `width` does not include exchanges
  std::optional<simulation::Recording> text;  ///< from --from

  /// Takes machines, text and draft from a run.
  void take(const MeasuredRun& run);
  /// Takes network and groups from a plan. If ranks of the run shared layers, also the target's times on other stages. If the plan is not
  /// part of a run, also machines, draft and text. The first machine sets the times; the others are slower by factors.
  void take(const PlanFile& plan);

  /// Whether these stages were measured.
  bool measured(std::span<const int> stages) const { return !stage_ms.empty() && std::ranges::equal(stages, groups); }

  double among_first_four() const { return acceptance4.value_or(yamata::among_first_four(acceptance)); }
  /// Time of an exchange of a one-row run here, if it took `tried` on the network of the benchmark: slices of `bytes` bytes arrive later by
  /// the additional time that they need on this network.
  simulation::Nanoseconds exchange_here(simulation::Nanoseconds tried, double bytes) const;
};

}  // namespace yamata
