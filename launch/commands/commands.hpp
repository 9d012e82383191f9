#pragma once
// The commands.
#include <functional>
#include <memory>

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

class Job;

// The commands, on the head. Each prints its result, and throws errors for the user.
void run_command(Job& job, const RunOptions& options);
void engine_command(Job& job, const EngineOptions& options);
void perplexity_command(Job& job, const PerplexityOptions& options);
void acceptance_command(Job& job, const AcceptanceOptions& options);
void features_command(Job& job, const FeaturesOptions& options);
void tokenize_command(const TokenizeOptions& options);
void inspect_command(const InspectOptions& options, int ranks);
void plan_command(const PlanOptions& options);
void simulate_command(const SimulationOptions& options);
void profile_command(const ProfileOptions& options);
/// Makes a job of this process with these options.
using JobMaker = std::function<std::unique_ptr<Job>(const JobOptions& options)>;
void bench_command(const BenchOptions& options, const JobMaker& make_job);
void quantize_command(const QuantizeOptions& options);
void fetch_command(const FetchedOptions& options);

}  // namespace yamata
