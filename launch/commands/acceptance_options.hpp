#pragma once
// The options of yamata acceptance.
#include <string>
#include <vector>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

struct AcceptanceOptions {
  JobOptions job;
  SpeculationOptions speculation;
  SamplingParams sampling;
  std::string prompts_file;             ///< one question per line
  std::vector<std::string> categories;  ///< of the questions that are used; empty: all
  std::string prompt_format;            ///< {} is replaced by the question
  std::string pre_tokenizer;
  std::string json_file;
  int generate = 128;                   ///< tokens after each prompt
  int most_prompts = 0;                 ///< 0: all
  int levels = 8;                       ///< number of tokens ahead whose guesses are evaluated
  std::vector<std::string> idle_flags;  ///< lines about flags without effect
};

Flags acceptance_flags();
/// Throws UsageError naming the invalid flag.
AcceptanceOptions read_acceptance(const GivenFlags& result);

}  // namespace yamata
