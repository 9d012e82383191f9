#pragma once
// Parses the command line into a command and its options.
#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "launch/commands/acceptance_options.hpp"
#include "launch/commands/bench_options.hpp"
#include "launch/commands/engine_options.hpp"
#include "launch/commands/features_options.hpp"
#include "launch/commands/fetch_options.hpp"
#include "launch/commands/inspect_options.hpp"
#include "launch/commands/perplexity_options.hpp"
#include "launch/commands/plan_options.hpp"
#include "launch/commands/profile_options.hpp"
#include "launch/commands/quantize_options.hpp"
#include "launch/commands/run_options.hpp"
#include "launch/commands/simulate_options.hpp"
#include "launch/commands/tokenize_options.hpp"

namespace yamata {

/// Either a text to print (help, version) and no command, or a command's options.
struct CommandLine {
  std::string text;
  std::variant<std::monostate, RunOptions, PerplexityOptions, TokenizeOptions, InspectOptions, BenchOptions, ProfileOptions,
               QuantizeOptions, SimulationOptions, PlanOptions, FeaturesOptions, AcceptanceOptions, EngineOptions, FetchedOptions>
      options;
};

/// Parses the arguments. Throws UsageError for an unknown or invalid argument.
CommandLine parse_command_line(int argc, const char* const* argv);

/// The jobs with several ranks that a command runs one after another; they are the same on every rank.
std::vector<JobOptions> jobs_of(const CommandLine& line);

}  // namespace yamata
