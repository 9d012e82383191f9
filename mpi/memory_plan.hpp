#pragma once
// Whether every rank's share fits into its machine's memory, asked before anything is allocated.
#include <string>
#include <vector>

#include "mpi/wire.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata {

/// Adds up, per host, what the ranks there will allocate: cache and buffers for runs of `batch` tokens. Throws UsageError where a
/// host has less than that, naming its rank, and the largest -c that fits. Returns a warning for each host whose ranks' weights
/// do not fit into memory beside that: they would be read from disk for every token.
std::vector<std::string> plan_memory(const gguf::File& file, const Hyperparameters& h, const wire::Start& plan, const std::vector<wire::Hello>& hellos,
                                     int batch);

}  // namespace yamata
