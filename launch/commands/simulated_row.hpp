#pragma once
// What a simulation of one cluster and strategy says.
#include <string>

#include "mpi/simulation/virtual_cluster.hpp"

namespace yamata {

/// Means over the repeats. Times are virtual.
struct SimulatedRow {
  int ranks = 0, group = 1;  ///< group: number of ranks that share each stage
  std::string strategy;
  double tokens_per_s = 0, ratio = 0;  ///< ratio: to iterative decoding with equally many ranks, in groups of the same size
  double prefill_s = 0, ttft_ms = 0;   ///< of the first text
  /// Of all texts: from a request until its first token, with the time in the queue; between its tokens.
  double first_p50_ms = 0, first_p95_ms = 0, itl_p50_ms = 0, itl_p99_ms = 0;
  double acceptance = 0, tokens_per_run = 0, runs_started = 0, runs_cancelled = 0;
  double runs_skipped = 0, cancel_latency_s = 0;          ///< see simulation::Outcome
  double busiest_stage = 0, mean_stage = 0, drafter = 0;  ///< shares of the time after the first token that were spent computing

  /// Adds the results of one repeat, with weight `share`.
  void add(const simulation::Outcome& outcome, double share);
};

}  // namespace yamata
