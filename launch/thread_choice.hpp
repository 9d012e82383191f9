#pragma once
// How many threads a rank computes with: where the flags do not say, and where they say too much.
#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "mpi/wire.hpp"
#include "node/cpu/kernels.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

/// Of `choices`, the logical CPUs on which layer `layer` of the model is computed fastest for one token; most threads first. Fewer
/// threads must be faster by a twentieth; where one choice is not, those after it are not tried. The first where reading the layer takes
/// longer than `patience`. Throws ModelError where the layer is not as it should be.
std::vector<int> fastest_cpus(const ModelFile& model, std::int64_t layer, const std::vector<std::vector<int>>& choices, cpu::Isa isa,
                              std::chrono::milliseconds patience);

/// A warning for each host whose ranks have more threads than it has logical CPUs, unless each has but one.
std::vector<std::string> crowded_hosts(std::span<const wire::Hello> ranks);

}  // namespace yamata
