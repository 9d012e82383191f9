#pragma once
// Faults that tests inject into kernels: one barrier or bounds check at a time is skipped.
#include <source_location>
#include <string>
#include <vector>

namespace yamata::simt::injected {

#ifdef __cpp_lib_source_location
using Site = std::source_location;
#else
/// std::source_location, which clang before 16 does not have with GCC's library.
class Site {
 public:
  static constexpr Site current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE(),
                                unsigned column = __builtin_COLUMN()) {
    return Site(file, line, column);
  }
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }
  constexpr unsigned column() const { return column_; }

 private:
  constexpr Site(const char* file, unsigned line, unsigned column) : file_(file), line_(line), column_(column) {}

  const char* file_;
  unsigned line_, column_;
};
#endif

/// The barriers and bounds checks that kernels have executed since the last record(true), in the order of the source: "file:line:column".
std::vector<std::string> sites();
void record(bool on);
/// Skips this site, written as in sites(), from now on; empty: none.
void remove(const std::string& site);

extern bool g_active;  ///< something is recorded or skipped
bool is_removed(const Site& where);
inline bool removed(const Site& where) { return g_active && is_removed(where); }

}  // namespace yamata::simt::injected
