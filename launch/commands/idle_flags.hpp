#pragma once
// Flags about guesses that have no effect on a job.
#include <cxxopts.hpp>
#include <string>
#include <vector>

#include "launch/options.hpp"

namespace yamata {

/// What determines which flags have an effect.
struct GuessingSetup {
  const JobOptions& job;
  const SpeculationOptions& speculation;
  bool simulated = false;  ///< numbers describe the drafts, instead of files
};

/// The given flags that do nothing in such a job: a line for each reason, with the flags, the reason and the remedy.
std::vector<std::string> idle_flags(const cxxopts::ParseResult& result, const GuessingSetup& setup);

}  // namespace yamata
