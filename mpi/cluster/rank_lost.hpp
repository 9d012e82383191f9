#pragma once
// The fault that one rank is to the others.
#include <string>

#include "node/error.hpp"

namespace yamata {

/// A rank of the job is gone: it died, fell silent or does not come on. The message names it; whoever catches it can also ask.
/// Thrown where the job cannot do without the rank, handed about as a value where that is still to be decided.
struct RankLost : ClusterError {
  RankLost(int lost, const std::string& message) : ClusterError(message), rank(lost) {}
  int rank;
};

}  // namespace yamata
