#pragma once
// Faults that tests inject into kernels: one barrier or bounds check at a time is skipped.
#include <source_location>
#include <string>
#include <vector>

namespace yamata::simt::injected {

/// The barriers and bounds checks that kernels have executed since the last record(true), in the order of the source: "file:line:column".
std::vector<std::string> sites();
void record(bool on);
/// Skips this site, written as in sites(), from now on; empty: none.
void remove(const std::string& site);

extern bool g_active;  ///< something is recorded or skipped
bool is_removed(const std::source_location& where);
inline bool removed(const std::source_location& where) { return g_active && is_removed(where); }

}  // namespace yamata::simt::injected
