#pragma once
// The options of yamata run.
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
  std::string idle_guessing_flag;  ///< a flag about guesses that was given although there is no draft model

  /// The files that the run reads.
  std::vector<std::string> inputs() const;
};

cxxopts::Options run_flags();
/// Throws UsageError naming the invalid flag. `flags`: the declared flags.
RunOptions read_run(const cxxopts::Options& flags, const cxxopts::ParseResult& result);

}  // namespace yamata
