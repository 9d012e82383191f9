#pragma once
// Messages as a faulty network, memory or program may leave them.
#include <cstddef>
#include <random>

#include "mpi/protocol/wire.hpp"

namespace yamata::test {

/// How many damaged messages the tests take: 20,000, or YAMATA_WIRE_DAMAGE.
std::size_t damage_rounds();

/// A copy of a message with bits flipped, cut, lengthened, its parts swapped or taken from `other`, or with extreme numbers in it; one to
/// three of these. It may come out as it was.
wire::Bytes damage(const wire::Bytes& whole, const wire::Bytes& other, std::mt19937_64& random);

}  // namespace yamata::test
