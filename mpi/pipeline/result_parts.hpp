#pragma once
// The result of a run whose last stage is a group of ranks, each of which sends a part.
#include <span>
#include <vector>

#include "mpi/pipeline/run_result.hpp"
#include "mpi/protocol/validate.hpp"

namespace yamata {

/// Joins valid parts in the order of the vocabulary; `senders` are their ranks. Throws ClusterError if they are not a complete result.
RunResult merge_parts(std::span<const wire::Rows> parts, const wire::ResultLimits& limits, std::span<const int> senders);

}  // namespace yamata
