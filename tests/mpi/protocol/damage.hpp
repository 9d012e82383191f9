#pragma once
// Messages that were damaged by a faulty network, memory or program.
#include <cstddef>
#include <random>

#include "mpi/protocol/wire.hpp"

namespace yamata::test {

/// The number of damaged messages per test: 20,000, or YAMATA_WIRE_DAMAGE.
std::size_t damage_rounds();

/// A copy of a message with one to three changes: flipped bits, truncation, additional bytes, swapped parts, parts of `other`, or extreme
/// numbers. It may be unchanged.
wire::Bytes damage(const wire::Bytes& whole, const wire::Bytes& other, std::mt19937_64& random);

}  // namespace yamata::test
