#pragma once
// The cluster that is simulated, as numbers.
#include <map>
#include <optional>
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
  std::vector<double> stage_ms;          ///< as measured, where --from has them; for as many stages
  bool times_have_meetings = false;      ///< since ranks of that run shared layers
  simulation::WidthCost width, draft_width;
  std::optional<simulation::Recording> text;  ///< of --from

  /// Takes the machines, the text and the draft of a run.
  void take(const MeasuredRun& run);
  /// Takes network and groups of a plan; where those of the run are with meetings, the target's times; of a plan that is no part of a run
  /// machines, draft and text, too. Its first machine sets the times, the others are so many times as slow.
  void take(const PlanFile& plan);

  double among_first_four() const { return acceptance4.value_or(yamata::among_first_four(acceptance)); }
  /// What a meeting of a one-row run takes that took `tried` on the network where it was tried: slices of so many bytes come later by as
  /// much as this network takes longer for them.
  simulation::Nanoseconds meeting_here(simulation::Nanoseconds tried, double bytes) const;
};

}  // namespace yamata
