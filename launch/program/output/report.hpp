#pragma once
// The results of a run, as a table, JSON, CSV and trace.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/engine/request.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// The engine's result of a request, and statistics of the ranks.
struct Generation : Completion {
  std::string strategy = "iterative", text;
  bool lossless = true;  ///< the text is the target's own; false with typical acceptance
  std::vector<std::int32_t> prompt_ids;
  Hyperparameters model;  ///< of the target
  bool with_checksum = false;
  std::vector<wire::Report> per_rank;
  std::vector<std::int64_t> threads_measured_s;  ///< per rank, in seconds since the epoch; 0: the number of threads was given
  std::string layout_choice;                     ///< the planner's choice and its reason: a line, or empty
  std::string plan_json;                         ///< the layouts that it compared, as JSON
  std::string split_advice;                      ///< a line, or empty
};

struct Speed {
  double prefill_tokens_per_s = 0, decode_tokens_per_s = 0, ttft_s = 0, itl_mean_s = 0, itl_p50_s = 0, itl_p99_s = 0;
};
/// As defined in PipeInfer's paper: decode speed excludes prefill and the token sampled from it; TTFT is the time to the token after that.
/// The time to the token of the prefill is Completion::first_token_s.
Speed speed(const Generation& result);

/// Of ascending numbers; 0 if there are none.
double quantile(const std::vector<double>& sorted, double q);

/// The first and the last layer, or "-".
std::string layers_text(LayerRange layers);
/// The same, with the rank's share of the columns if ranks share layers: "0-7 50%".
std::string held_layers(const wire::Report& rank);

std::string to_json(const Generation& result);
/// How every trace begins.
inline constexpr std::string_view kTraceBegins = R"({"displayTimeUnit":"ms","traceEvents":[)";
/// The activity of every rank over time, in Chrome's trace format: a process per rank, runs as slices, cancels and commits as marks; and
/// the trees of guesses, by run.
std::string to_trace(const Generation& result);
/// A header line and a row.
std::string to_csv(const Generation& result);
/// The final statistics, for stderr.
std::string to_table(const Generation& result);

}  // namespace yamata
