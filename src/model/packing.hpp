#pragma once
// Memory for the weights that a compute unit packs.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "node/compute_unit.hpp"

namespace yamata {

/// Memory of `unit` for those of these matrices that it packs. Each of them points to its place in it from now on, and an operation that
/// fills that is added to `ops`, which the unit is to run before it multiplies with one. Throws ModelError where there is no memory: `what`
/// it is for, and the `remedy`.
std::unique_ptr<Buffer> set_aside_packed(ComputeUnit& unit, std::span<Matrix* const> matrices, std::vector<Op>& ops, const std::string& what,
                                         const std::string& remedy);

}  // namespace yamata
