#pragma once
// Jobs in virtual time for tests.
#include "mpi/simulation/virtual_cluster.hpp"

namespace yamata::simulation {

/// A job of so many tokens, whose layers take `layers` in all, divided over `stages` ranks; with a drafter unless it is iterative.
inline Scenario job_of(int stages, Strategy strategy, Nanoseconds layers, Nanoseconds draft, int generate) {
  Scenario s;
  s.stages.assign(static_cast<std::size_t>(stages), layers / stages);
  if (strategy != Strategy::kIterative) s.drafters = {draft};
  s.slowness.assign(s.stages.size() + s.drafters.size(), 1.0);
  s.decode.strategy = strategy;
  s.decode.generate = generate;
  s.decode.context = generate + 64;
  s.decode.guess_cells = 128;
  s.decode.sequences = {0, 129};
  return s;
}

/// Machines and a network without costs except the time of the layers and of the drafts.
inline Scenario ideal(int stages, Strategy strategy) {
  Scenario s = job_of(stages, strategy, 24 * kMillisecond, kMillisecond / 10, 64);
  s.width = s.draft_width = WidthCost({0});
  s.network = {0, 1e18, 0};
  s.head = 0;
  s.prompt = 1;
  return s;
}

/// The same with costs like those of real machines.
inline Scenario real(int stages, Strategy strategy) {
  Scenario s = ideal(stages, strategy);
  s.width = s.draft_width = WidthCost({0.05});
  s.network = NetworkOptions{};
  s.head = 50'000;
  s.prompt = 20;
  return s;
}

/// The same with a text that is long enough for calibration.
inline Scenario longer(Scenario s) {
  s.decode.generate = 200;
  s.decode.context = 256;
  return s;
}

}  // namespace yamata::simulation
