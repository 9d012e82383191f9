#pragma once
// --preset: the papers' systems, as flags of this program.
#include <string>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

/// "NAME (what it is), ...": for --help.
std::string presets_help();
/// Sets the preset's options where no flag is given. Throws UsageError if a flag contradicts the preset, or if something is missing that
/// the preset needs. Returns whether its guesses have a pipeline only on several ranks.
bool read_preset(const GivenFlags& given, JobOptions& job, SpeculationOptions& speculation);

}  // namespace yamata
