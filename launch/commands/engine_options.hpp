#pragma once
// The options of yamata engine.
#include <string>
#include <vector>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"
#include "src/sampling/sampler.hpp"

namespace yamata {

struct EngineOptions {
  JobOptions job;
  SamplingParams sampling;  ///< of requests that do not say
  SpeculationOptions speculation;
  int slots = 1;                        ///< --slots
  int requests = 1;                     ///< --requests
  int cache_tokens = 0;                 ///< --cache-tokens; 0: a context for each slot
  std::string pre_tokenizer;            ///< --pre
  std::vector<std::string> idle_flags;  ///< lines about flags without effect

  /// The files that it reads.
  std::vector<std::string> inputs() const;
};

Flags engine_flags();
/// Throws UsageError naming the invalid flag.
EngineOptions read_engine(const GivenFlags& result);

}  // namespace yamata
