#pragma once
// --preset: the papers' systems, as flags of this program.
#include <cxxopts.hpp>

#include "launch/commands/run_options.hpp"

namespace yamata {

/// "NAME (what it is), ...": for --help.
std::string presets_help();
/// Sets the preset's options where no flag is given. Throws UsageError if a flag contradicts the preset, or if something is missing that
/// the preset needs.
void read_preset(const cxxopts::ParseResult& r, RunOptions& options);

}  // namespace yamata
