#pragma once
// What a run measured, for people and for programs.
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/engine/request.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// What the engine says of a request, and what the ranks do.
struct Generation : Completion {
  std::string strategy = "iterative", text;
  bool lossless = true;  ///< the text is the target's own; not with typical acceptance
  std::vector<std::int32_t> prompt_ids;
  Hyperparameters model;  ///< of the target
  bool with_checksum = false;
  std::vector<wire::Report> per_rank;
  std::vector<std::int64_t> threads_measured_s;  ///< per rank, in seconds of the calendar clock; 0: its threads were given
  std::string layout_choice;                     ///< what the planner chose, and why: a line, or nothing
  std::string plan_json;                         ///< what it chose among, as JSON
  std::string split_advice;                      ///< a line, or nothing
};

struct Speed {
  double prefill_tokens_per_s = 0, decode_tokens_per_s = 0, ttft_s = 0, itl_mean_s = 0, itl_p50_s = 0, itl_p99_s = 0;
};
/// The papers' definitions: decode speed leaves out prefill and the token sampled from it; TTFT is the time to the token after.
Speed speed(const Generation& result);

/// The first and the last, or "-".
std::string layers_text(LayerRange layers);
/// With what it holds of them where ranks share them: "0-7 50%".
std::string held_layers(const wire::Report& rank);

std::string to_json(const Generation& result);
/// What every rank did when, in Chrome's trace format: a process per rank, runs as slices, cancels and commits as marks.
std::string to_trace(const Generation& result);
/// A header line and a row.
std::string to_csv(const Generation& result);
/// The closing statistics, for stderr.
std::string to_table(const Generation& result);

}  // namespace yamata
