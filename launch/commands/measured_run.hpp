#pragma once
// What the JSON of a run contains about its machines, its draft and its text.
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
  std::vector<double> stage_ms;                ///< per rank of them: time of a run of one row, including the exchanges of groups
  std::vector<double> exchange_ms;             ///< per rank: time of these exchanges, with waits for other members; 0: none
  double computing_ms = 0;                     ///< the sum of the times without exchanges
  std::optional<simulation::WidthCost> width;  ///< of all stages together, if wider runs were measured
  int drafters = 0;                            ///< number of drafters with ranks of their own
  bool draft_heads = false;                    ///< the drafters read hidden states of the target
  std::optional<double> draft_ms;              ///< time of a draft evaluation of one row on such a rank
  std::optional<simulation::WidthCost> draft_width;
  double first_choice_rate = 0;  ///< 0: unknown
  double head_ms = 0;            ///< per token
  int layers = 0;                ///< of the target; 0: unknown
  simulation::RowWidths widths;
  simulation::Recording text;  ///< without tokens: unknown
};

/// Reads the text of a file. Throws ModelError naming the file if it is not a result of `yamata run --json`.
MeasuredRun parse_measured_run(const std::string& text, const std::string& path);

}  // namespace yamata
