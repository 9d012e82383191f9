#pragma once
// Advice on the split of layers, based on a run's measured times.
#include <span>
#include <string>
#include <vector>

#include "mpi/planning/layer_split.hpp"
#include "mpi/planning/layout.hpp"
#include "mpi/protocol/wire.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

/// A line that names the stage of the target that took at least twice as long for its share of the work as the others, and the
/// --layer-split that would have been better. Empty if there is none or too few runs. `reports`: per rank. `capacities`: bytes for weights
/// and cache per rank, with `cache_bytes` per layer.
std::string split_advice(const ModelFile& target, const Layout& layout, const std::vector<wire::Report>& reports,
                         std::span<const std::uint64_t> capacities, std::uint64_t cache_bytes, const Workload& work = {});

}  // namespace yamata
