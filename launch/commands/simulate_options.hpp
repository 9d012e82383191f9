#pragma once
// What yamata simulate can be asked for.
#include <cstdint>
#include <cxxopts.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/options.hpp"

namespace yamata {

/// Machines, network and draft as numbers. What is not given comes from --from, then from a default.
struct SimulationOptions {
  std::string model;  ///< empty: none
  std::vector<std::string> draft_models;
  SpeculationOptions speculation;
  bool draft_on_head = false;
  int batch = 64;
  std::uint64_t seed = 0;
  std::string json_file, csv_file;
  std::vector<int> ranks;               ///< none: to be chosen
  std::vector<int> groups{1};           ///< ranks that share each stage
  std::vector<std::string> strategies;  ///< none: all that are possible
  std::string from_file;
  std::optional<double> target_ms, draft_ms, head_ms, acceptance, acceptance4, over_confidence;
  std::optional<int> generate, prompt_tokens, drafters;
  std::vector<double> width_cost;
  std::optional<double> latency_ms, bandwidth_mbit_s, wake_up_ms;
  int repeats = 3;
  std::map<int, double> slow;  ///< rank -> factor
};

cxxopts::Options simulate_flags();
/// Throws UsageError naming the flag that makes no sense.
SimulationOptions read_simulation(const cxxopts::ParseResult& result);

}  // namespace yamata
