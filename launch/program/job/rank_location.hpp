#pragma once
// Where a rank is.
#include <cstdint>
#include <string>

namespace yamata {

/// A rank's number in the job, and on its machine.
struct RankLocation {
  int rank = 0, ranks = 1;
  std::string host;
  int local_rank = 0, local_size = 1;  ///< among the job's ranks on this host

  /// The layer to measure: most likely one of this rank's own, whose part of the file it reads in any case.
  std::int64_t probed_layer(std::int64_t layers) const { return (2 * rank + 1) * layers / (2 * ranks); }
};

}  // namespace yamata
