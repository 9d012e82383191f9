#pragma once
// The options of yamata simulate.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

constexpr int kMaxSimulatedTokens = 10000;  ///< of a prompt, and of a text that is generated

/// Machines, network and draft as numbers. Numbers that are not given come from --from, else from a default.
struct SimulationOptions {
  std::string model;  ///< empty: none
  std::vector<std::string> draft_models;
  SpeculationOptions speculation;
  bool draft_on_head = false;
  int batch = 64;
  std::uint64_t seed = 0;
  std::string json_file, csv_file;
  std::vector<int> ranks;               ///< empty: chosen by the program
  std::vector<int> groups{1};           ///< number of ranks that share each stage
  std::vector<std::string> strategies;  ///< empty: all possible ones
  std::string from_file;
  std::optional<double> target_ms, draft_ms, head_ms, acceptance, acceptance4, over_confidence;
  std::optional<int> generate, prompt_tokens, drafters;
  std::vector<double> width_cost;
  std::optional<double> latency_ms, bandwidth_mbit_s, wake_up_ms;
  int repeats = 3;
  int requests = 1;                     ///< texts in all
  int slots = 1;                        ///< texts at a time, at most
  double requests_per_s = 0;            ///< --arrival; 0: all at the beginning
  std::map<int, double> slow;           ///< rank -> factor
  std::vector<std::string> idle_flags;  ///< lines about flags without effect
};

Flags simulate_flags();
/// Throws UsageError naming the invalid flag.
SimulationOptions read_simulation(const GivenFlags& result);

}  // namespace yamata
