#pragma once
// What yamata acceptance can be asked for.
#include <cxxopts.hpp>
#include <string>

#include "launch/options.hpp"

namespace yamata {

struct AcceptanceOptions {
  JobOptions job;
  SpeculationOptions speculation;
  SamplingParams sampling;
  std::string prompts_file;   ///< one question per line
  std::string prompt_format;  ///< {} stands for the question
  std::string pre_tokenizer;
  std::string json_file;
  int most_prompts = 0;  ///< 0: all
  int levels = 8;        ///< tokens ahead that are looked at
};

cxxopts::Options acceptance_flags();
/// Throws UsageError naming the flag that makes no sense.
AcceptanceOptions read_acceptance(const cxxopts::ParseResult& result);

}  // namespace yamata
