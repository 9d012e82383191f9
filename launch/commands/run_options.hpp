#pragma once
// What yamata run can be asked for.
#include <cxxopts.hpp>
#include <string>

#include "launch/options.hpp"

namespace yamata {

struct RunOptions {
  JobOptions job;
  TextSource text;
  SamplingParams sampling;
  SpeculationOptions speculation;
  bool ignore_eos = false, logits_checksum = false;
  std::string json_file, csv_file, trace_file;
  std::string idle_guessing_flag;  ///< one that was given though there is no draft model

  /// The files that it reads.
  std::vector<std::string> inputs() const;
};

cxxopts::Options run_flags();
/// Throws UsageError naming the flag that makes no sense. `flags`: those declared.
RunOptions read_run(const cxxopts::Options& flags, const cxxopts::ParseResult& result);

}  // namespace yamata
