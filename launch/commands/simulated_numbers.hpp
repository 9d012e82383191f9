#pragma once
// The cluster that is simulated, as numbers.
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "launch/commands/measured_run.hpp"
#include "launch/planning/group_cost.hpp"
#include "launch/planning/plan_file.hpp"

namespace yamata {

/// At first what is taken where nobody says more.
struct SimulatedNumbers {
  double target_ms = 400, draft_ms = 0, head_ms = 0.05, acceptance = 0.65;
  std::optional<double> acceptance4;  ///< else of the other tokens 58 %
  int layers = 32, drafters = 1, prompt = 64, generate = 128;
  std::vector<int> ranks{2, 4, 8};
  simulation::NetworkOptions network;
  simulation::RowWidths widths;
  double meeting_bytes = simulation::Scenario().meeting_bytes;
  std::vector<GroupCost> group_costs;    ///< of groups that have rehearsed
  simulation::NetworkOptions rehearsed;  ///< the network that they did it on
  std::map<int, double> slow;            ///< rank -> factor
  std::vector<int> groups;               ///< ranks of each stage, where --from has them
  std::vector<double> stage_ms;          ///< of each of these ranks as measured, with the meetings of groups; for the same stages
  simulation::WidthCost width, draft_width;
  std::optional<simulation::Recording> text;  ///< of --from

  /// Takes the machines, the text and the draft of a run.
  void take(const MeasuredRun& run);
  /// Takes network and groups of a plan; where ranks of the run shared layers, what the target takes on other stages; of a plan that is no
  /// part of a run machines, draft and text, too. Its first machine sets the times, the others are so many times as slow.
  void take(const PlanFile& plan);

  /// Whether these stages were measured.
  bool measured(std::span<const int> stages) const { return !stage_ms.empty() && std::ranges::equal(stages, groups); }

  double among_first_four() const { return acceptance4.value_or(yamata::among_first_four(acceptance)); }
  /// What a meeting of a one-row run takes that took `tried` on the network where it was tried: slices of so many bytes come later by as
  /// much as this network takes longer for them.
  simulation::Nanoseconds meeting_here(simulation::Nanoseconds tried, double bytes) const;
};

}  // namespace yamata
