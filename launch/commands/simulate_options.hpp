#pragma once
// The flags of yamata simulate that no other command has.
#include <cstdint>
#include <cxxopts.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace yamata {

/// Machines, network and draft as numbers. What is not given comes from --from, then from a default.
struct SimulationOptions {
  std::vector<int> ranks;               ///< none: to be chosen
  std::vector<std::string> strategies;  ///< none: all that are possible
  std::string from_file;
  std::optional<double> target_ms, draft_ms, head_ms, acceptance, acceptance4, over_confidence;
  std::optional<int> generate, prompt_tokens, drafters;
  std::vector<double> width_cost;
  double latency_ms = 0.1, bandwidth_mbit_s = 1000, wake_up_ms = 0.05;
  int repeats = 3;
  std::map<int, double> slow;  ///< rank -> factor
};

void declare_simulation(cxxopts::Options& flags);
/// Throws UsageError naming the flag that makes no sense.
SimulationOptions read_simulation(const cxxopts::ParseResult& result);

}  // namespace yamata
