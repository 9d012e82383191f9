#pragma once
// --preset: the papers' systems, as flags of this program.
#include <string>
#include <vector>

#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

/// "NAME (what it is), ...": for --help.
std::string presets_help();
/// The policy of the preset, if one is given: its size must be known when --tree is read. Throws UsageError if there is no such preset.
PolicyDefaults preset_policy(const GivenFlags& given);
/// Sets the preset's other options where no flag is given. Throws UsageError if a flag contradicts the preset, or if something is missing
/// that the preset needs. Returns whether its guesses have a pipeline only on several ranks.
bool read_preset(const GivenFlags& given, JobOptions& job, SpeculationOptions& speculation);
/// A line if the preset is of a system with a GPU, and no unit is one.
std::vector<std::string> preset_warnings(const GivenFlags& given, const JobOptions& job);

}  // namespace yamata
