#pragma once
// Which existing files an output may replace: those of the kind that it writes.
#include <string>

namespace yamata {

enum class OutputKind {
  kJson,
  kTrace,          ///< yamata run --trace
  kRunCsv,         ///< yamata run --csv
  kSimulationCsv,  ///< yamata simulate --csv
  kGguf,
  kFeatures,
  kSuffixStore,  ///< SuffixFile refuses other files, and reads this one
};

/// Throws UsageError if there is a file at the path that is not of this kind, or cannot be read. Empty files, devices and pipes are never
/// refused.
void refuse_foreign(const std::string& path, OutputKind kind);

}  // namespace yamata
