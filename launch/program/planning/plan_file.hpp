#pragma once
// Plans in files: the output of `yamata plan --json`, and the result of a run that has planned its layout.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/program/planning/layout_planner.hpp"

namespace yamata {

/// The input of a plan: machines, network, models and text as numbers.
struct PlanFile {
  std::vector<PlannedHost> hosts;      ///< the first one leads
  simulation::NetworkOptions network;  ///< between hosts whose link is unknown
  std::vector<GroupCost> group_costs;  ///< from group benchmarks, ascending
  double target_bytes = 0;             ///< of the weights that are read per token
  double draft_bytes = 0;              ///< likewise; 0: there was no draft
  double draft_cost = 1;               ///< of an evaluation, see FirstChoices
  int layers = 0;                      ///< of the target
  double exchange_bytes = 0;           ///< see shard.hpp
  simulation::RowWidths widths;
  double acceptance = 0, acceptance4 = 0, over_confidence = 0;  ///< of the draft, as PlannedJob has them
  int prompt = 0, generate = 0;                                 ///< tokens
  bool of_run = false;                                          ///< it is part of a run's result

  /// The worst latency and the worst rate of the links.
  simulation::NetworkOptions slowest_link() const;
};

/// `chosen`: that of the forecasts whose number is named as "chosen"; null: none.
std::string to_json(const PlannedJob& job, std::span<const PlannedHost> hosts, const simulation::NetworkOptions& network,
                    std::span<const Forecast> forecasts, const Forecast* chosen = nullptr);

/// The plan in a file of --from; nothing if the file is a JSON of something else. Throws ModelError if the file cannot be read, is not
/// JSON, or has a damaged plan.
std::optional<PlanFile> read_plan_file(const std::string& path);
/// The same for the text of the file.
std::optional<PlanFile> parse_plan_file(const std::string& text, const std::string& path);

}  // namespace yamata
