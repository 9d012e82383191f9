#pragma once
// The error that a rank is lost.
#include <string>

#include "node/error.hpp"

namespace yamata {

/// A rank of the job is lost: it died, is silent, or makes no progress. The message names the rank, and a member has its number. It is
/// thrown if the job cannot continue without the rank, and passed as a value while this is not yet decided.
struct RankLost : ClusterError {
  RankLost(int lost, const std::string& message) : ClusterError(message), rank(lost) {}
  int rank;
};

}  // namespace yamata
