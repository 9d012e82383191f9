#pragma once
// A whole cluster in one thread: a seeded scheduler decides which rank acts next, which message arrives, which unit computes an operation.
#include <cstdint>
#include <string>

#include "mpi/decoding/decoder.hpp"
#include "tests/mpi/simulation/scenario.hpp"

namespace yamata::test {

struct Outcome {
  std::string fault;  ///< empty: no error
  Decoder::Counters counters;
  std::uint64_t steps = 0;
};

/// Plays a scenario to its end and checks the text against the function itself, every stage's cells against the head's, and that everything
/// comes to rest. `trace`: prints events to stderr.
Outcome play(const Scenario& scenario, bool trace = false);

}  // namespace yamata::test
