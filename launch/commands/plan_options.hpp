#pragma once
// The options of yamata plan.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/commands/machine_units.hpp"
#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

/// The machines, given as files or numbers. A machine without a profile is assumed to be like this one.
struct PlanOptions {
  std::string model, draft_model;  ///< draft_model empty: none
  std::string from_file;           ///< a plan; empty: none
  std::string hostfile, profiles;  ///< likewise
  int ranks = 0;                   ///< number of machines, if no file names any
  std::map<int, double> slow;      ///< rank -> factor
  SpeculationOptions speculation;
  CacheTypes cache_types;
  int context = 0, batch = 64, threads = 0;
  std::optional<int> generate;  ///< empty: 128, or as many as the context has room for
  int prompt_tokens = 64;
  int requests = 1;                               ///< texts at a time
  std::optional<double> acceptance, acceptance4;  ///< empty: those of the plan, or the planner's defaults
  double latency_ms = 0.1, bandwidth_mbit_s = 1000, wake_up_ms = 0.05;
  std::optional<MachineUnits> machine;  ///< one machine with several units, instead of the above
  int rows = 10;                        ///< of the table
  std::string json_file;
  std::string program = "yamata";       ///< as the user called it
  std::string job_flags;                ///< the given flags of the job that run has, too, or engine, each after a space
  std::vector<std::string> idle_flags;  ///< lines about flags without effect
};

Flags plan_flags();
/// Throws UsageError naming the invalid flag.
PlanOptions read_plan(const GivenFlags& result);

}  // namespace yamata
