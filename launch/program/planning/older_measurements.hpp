#pragma once
// Files in which older versions of the program kept each measurement.
#include <string>

namespace yamata {

/// Removes them from the cache folder, with temporary files of killed processes. Nothing else is removed: a file must have the name, the
/// size and the first word of a measurement. What cannot be removed stays.
void remove_older_measurements(const std::string& folder);

}  // namespace yamata
