#pragma once
// Descriptions of machines in files: hostfiles, and the output of `yamata profile`.
#include <string>
#include <vector>

#include "launch/planning/layout_candidates.hpp"

namespace yamata {

/// The names in a hostfile of mpirun, one per line. The rest of a line, and lines that begin with #, are ignored. Throws UsageError if the
/// file cannot be read or has no name.
std::vector<std::string> read_hostfile(const std::string& path);

/// A host as measured by `yamata profile -m MODEL --json FILE`. Throws UsageError if the file is not a profile, or has no model in it.
PlannedHost read_profile(const std::string& path);

/// All profiles (*.json) in a folder, ordered by file name. Throws UsageError like read_profile, and if there is none.
std::vector<PlannedHost> read_profiles(const std::string& folder);

}  // namespace yamata
