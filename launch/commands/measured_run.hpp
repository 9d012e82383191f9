#pragma once
// What the JSON of a run says of its machines, its draft and its text.
#include <optional>
#include <string>
#include <vector>

#include "mpi/simulation/virtual_cluster.hpp"

namespace yamata {

struct MeasuredRun {
  std::string strategy;
  int ranks = 0;
  double tokens_per_s = 0;
  std::vector<int> groups;                     ///< ranks of each stage
  std::vector<double> stage_ms;                ///< what a run of one row takes each of them, with the meetings of groups
  double computing_ms = 0;                     ///< the sum of these without meetings
  std::optional<simulation::WidthCost> width;  ///< of all stages together, where wider runs were measured
  int drafters = 0;                            ///< that have ranks of their own
  std::optional<double> draft_ms;              ///< what an evaluation of one row takes on such a rank
  std::optional<simulation::WidthCost> draft_width;
  double first_choice_rate = 0;  ///< 0: not said
  double head_ms = 0;            ///< per token
  int layers = 0;                ///< of the target; 0: not said
  simulation::RowWidths widths;
  simulation::Recording text;  ///< without tokens: not said
};

/// Throws UsageError naming the file where it is no result of `yamata run --json`.
MeasuredRun read_measured_run(const std::string& path);

}  // namespace yamata
