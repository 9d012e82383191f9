#pragma once
// Descriptions of machines in files: hostfiles, and the output of `yamata profile`.
#include <string>
#include <vector>

#include "launch/program/planning/layout_candidates.hpp"

namespace yamata {

/// The names in a hostfile of mpirun, one per line; lines that begin with # are ignored. Throws ModelError if the file cannot be read or
/// names no host, for a line that is no host, and for a host without slots.
std::vector<std::string> read_hostfile(const std::string& path);

/// A host as measured by `yamata profile -m MODEL --json HOST.json`.
struct HostProfile {
  std::string file;
  PlannedHost host{};
  double weight_bytes = 0;  ///< of the model that was measured
};

/// The profile of the host after which the file is named. Throws ModelError if the file is not a profile, has no model in it, or
/// has impossible numbers.
HostProfile read_profile(const std::string& path);

/// The profiles (*.json) in a folder, ordered by name. Throws ModelError if there is none.
std::vector<std::string> profile_files(const std::string& folder);

/// Reads them all. Throws ModelError like read_profile, and if there is none.
std::vector<HostProfile> read_profiles(const std::string& folder);

}  // namespace yamata
