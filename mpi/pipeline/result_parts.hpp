#pragma once
// The result of a run whose last stage is a group of ranks, each of which sends a part.
#include <span>
#include <vector>

#include "mpi/pipeline/run_result.hpp"
#include "mpi/protocol/validate.hpp"

namespace yamata {

/// The parts are valid, and in the order of the vocabulary; `senders` are whose. Throws ClusterError where they do not make a whole.
RunResult merge_parts(std::span<const wire::Rows> parts, const wire::ResultLimits& limits, std::span<const int> senders);

}  // namespace yamata
