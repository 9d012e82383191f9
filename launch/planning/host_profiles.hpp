#pragma once
// Machines as files describe them: hostfiles, and what `yamata profile` wrote.
#include <string>
#include <vector>

#include "launch/planning/layout_candidates.hpp"

namespace yamata {

/// The names in a hostfile of mpirun, one per line; what follows a name, and lines that begin with #, are left aside. Throws UsageError
/// where it cannot be read or names none.
std::vector<std::string> read_hostfile(const std::string& path);

/// A host as `yamata profile -m MODEL --json FILE` has measured it. Throws UsageError where the file is no profile, or has no model in it.
PlannedHost read_profile(const std::string& path);

/// All profiles (*.json) in a folder, by name of file. Throws UsageError as read_profile does, and where there is none.
std::vector<PlannedHost> read_profiles(const std::string& folder);

}  // namespace yamata
