#pragma once
// What a run's own times say about its split.
#include <span>
#include <string>
#include <vector>

#include "mpi/planning/layer_split.hpp"
#include "mpi/planning/layout.hpp"
#include "mpi/protocol/wire.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

/// A line that names the stage of the target that took at least twice as long for its share of the work as the others did,
/// and the --layer-split that would have been better; empty where there is none or the runs were too few to say.
/// `reports`: per rank. `capacities`: bytes for weights and cache per rank, at `cache_bytes` per layer.
std::string split_advice(const ModelFile& target, const Layout& layout, const std::vector<wire::Report>& reports,
                         std::span<const std::uint64_t> capacities, std::uint64_t cache_bytes, const Workload& work = {});

}  // namespace yamata
