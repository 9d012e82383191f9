#pragma once
// The command line.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cache/kv_store.hpp"
#include "launch/commands/bench_options.hpp"
#include "launch/commands/profile_options.hpp"
#include "launch/commands/quantize_options.hpp"
#include "launch/commands/simulate_options.hpp"
#include "node/topology.hpp"
#include "src/sampling/sampler.hpp"
#include "src/speculation/policy.hpp"

namespace yamata {

/// Everything the flags of all commands can say; each command declares those it takes.
struct Options {
  std::string command;
  std::string model, prompt_file, json_file, csv_file, trace_file, pre, layer_split = "auto", strategy = "auto";
  std::vector<std::string> draft_models;  ///< -md, each as often as --drafters says
  std::string idle_guessing_flag;         ///< one that was given though there is no draft model
  std::optional<std::string> prompt;
  int generate = 128;            ///< -n
  int context = 0;               ///< -c; 0: what the model was trained for, at most kDefaultContext
  int threads = 0;               ///< -t; 0: as many as are fastest, of this rank's share of the cores
  bool measure_threads = false;  ///< -t measure: which those are is measured anew
  Numa numa = Numa::kAuto;
  int batch = 64;  ///< -b
  int chunks = 0;  ///< --chunks; 0: all
  SamplingParams sampling;
  PolicyOptions policy;
  CacheTypes cache_types;
  bool ignore_eos = false, logits_checksum = false, ids = false, no_async = false, no_continuous = false, no_continue_tip = false,
       no_cancel = false, no_multibuffer = false, no_lookup = false, no_repack = false, no_bos = false, no_special = false, tensors = false;
  std::chrono::milliseconds timeout{120000};
  /// Whether guesses come from the text itself too, where there are any.
  bool looks_up() const { return policy.name == "best-first" && !no_lookup; }
  /// The files that the command reads.
  std::vector<std::string> inputs() const {
    std::vector<std::string> files = draft_models;
    files.insert(files.end(), {model, prompt_file, simulation.from_file});
    return files;
  }
  SimulationOptions simulation;  ///< of simulate
  BenchOptions bench;            ///< of bench
  ProfileOptions profile;        ///< of profile
  QuantizeOptions quantize;      ///< of quantize
};
inline constexpr int kDefaultContext = 4096;

/// The type of that name. Throws UsageError naming `flag`.
CacheType parse_cache_type(const std::string& name, const char* flag);

/// The options with `auto` decided for a job of this many ranks: pipeinfer where a draft model is given and there are ranks for
/// it, speculative where there is one rank for both, else iterative.
Options decided(Options options, int ranks);

/// What the command line asks for: options, or a text to print (help, version).
struct CommandLine {
  Options options;
  std::string text;
};

/// Parses the arguments. Throws UsageError for anything it does not know.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace yamata
