#pragma once
// The results of simulations, as a table and as JSON.
#include <string>
#include <vector>

namespace yamata {

/// One cluster and strategy; means over the texts. Times are virtual.
struct SimulatedRow {
  int ranks = 0, group = 1;  ///< group: number of ranks that share each stage
  std::string strategy;
  double tokens_per_s = 0, ratio = 0;  ///< ratio: to iterative decoding with equally many ranks, in groups of the same size
  double prefill_s = 0, ttft_ms = 0, itl_p50_ms = 0, itl_p99_ms = 0;
  double acceptance = 0, tokens_per_run = 0, runs_started = 0, runs_cancelled = 0;
  double runs_skipped = 0, cancel_latency_s = 0;          ///< see simulation::Outcome
  double busiest_stage = 0, mean_stage = 0, drafter = 0;  ///< shares of the time after the first token that were spent computing
};

/// The inputs of the rows, by the names of the flags.
using SimulatedFrom = std::vector<std::pair<std::string, double>>;

std::string to_table(const std::vector<SimulatedRow>& rows);
std::string to_csv(const std::vector<SimulatedRow>& rows);
std::string to_json(const std::vector<SimulatedRow>& rows, const SimulatedFrom& from);

}  // namespace yamata
