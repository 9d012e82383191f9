#pragma once
// --preset: the systems of the papers, as flags that this program has.
#include <cxxopts.hpp>

#include "launch/commands/run_options.hpp"

namespace yamata {

/// "NAME (what it is), ...": for --help.
std::string presets_help();
/// What the preset says and no flag does. Throws UsageError where a flag says otherwise, or something that it needs is not given.
void read_preset(const cxxopts::ParseResult& r, RunOptions& options);

}  // namespace yamata
