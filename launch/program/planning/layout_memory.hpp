#pragma once
// Memory of the ranks of a planned layout.
#include <cstdint>
#include <span>

#include "launch/program/planning/layout_planner.hpp"

namespace yamata {

/// Bytes of the cache of a layer of the target, on average, with as few cells as the texts need.
std::uint64_t least_layer_cache(const PlannedJob& job);

/// Fills in the memory of each rank, and whether the hosts have it. A host that leads and drafts needs memory for both. The cache has as
/// many cells as the engine would take for so many texts, at least as many as they need.
void add_memory(const PlannedJob& job, std::span<const PlannedHost> hosts, const DecodeOptions& decode, Forecast& f);

}  // namespace yamata
