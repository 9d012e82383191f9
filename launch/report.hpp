#pragma once
// What a run measured, for people and for programs.
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/wire.hpp"

namespace yamata {

struct RunResult {
  std::string strategy = "iterative", text;
  int prompt_tokens = 0;
  std::vector<std::int32_t> token_ids;
  double prefill_s = 0;
  std::vector<double> token_times_s;  ///< when each token was known, from the end of prefill; the first is 0
  std::uint64_t runs_started = 0, target_evaluations = 0;
  bool with_checksum = false;
  std::uint64_t logits_checksum = 0;
  std::vector<wire::Report> per_rank;
};

std::string to_json(const RunResult& result);
/// A header line and a row.
std::string to_csv(const RunResult& result);
/// The closing statistics, for stderr.
std::string to_table(const RunResult& result);

}  // namespace yamata
