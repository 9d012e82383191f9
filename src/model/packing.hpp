#pragma once
// Memory for weights that a compute unit packs.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "node/compute_unit.hpp"

namespace yamata {

/// Allocates memory of `unit` for those of these matrices that the unit packs. Each of them then points to its part of that memory, and an
/// operation that fills it is added to `ops`, which the unit must run before it multiplies with the matrix. Throws ModelError if there is
/// not enough memory; the message contains `what` needs it and the `remedy`.
std::unique_ptr<Buffer> set_aside_packed(ComputeUnit& unit, std::span<Matrix* const> matrices, std::vector<Op>& ops,
                                         const std::string& what, const std::string& remedy, BufferUse use = BufferUse::kWeights);

}  // namespace yamata
