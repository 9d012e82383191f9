#pragma once
// Faults planted in kernels by tests: one barrier or bounds check at a time is left out.
#include <source_location>
#include <string>
#include <vector>

namespace yamata::simt::planted {

/// The barriers and bounds checks that kernels have come by since record(true), in order of the source: "file:line:column".
std::vector<std::string> sites();
void record(bool on);
/// From now on this one, of sites(), is left out; empty: none.
void remove(const std::string& site);

extern bool g_active;  ///< something is recorded or left out
bool is_removed(const std::source_location& where);
inline bool removed(const std::source_location& where) { return g_active && is_removed(where); }

}  // namespace yamata::simt::planted
