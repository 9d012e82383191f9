#pragma once
// Heads of a random scenario.
#include <utility>

#include "tests/mpi/simulation/random_network.hpp"
#include "tests/mpi/simulation/simulation.hpp"

namespace yamata::test {

/// Beside a drafter that is on the head, or may die, heads would have to be as well.
inline void draw_heads(Scenario& s, Random& random) {
  const auto between = [&](int low, int high) { return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)); };
  const auto chance = [&](int percent) { return between(1, 100) <= percent; };
  const bool speculates = s.decode.strategy != Strategy::kIterative && s.decode.sequences.end > 1 && s.decode.guess_cells > 0;
  const bool beside = !s.drafters.empty() && s.drafters[0].ranks == 1 && !s.drafter_that_dies;
  for (int count = speculates && chance(35) ? between(1, 2) : 0; count > 0; --count) {
    Scenario::Heads heads{
        .place = static_cast<Scenario::Heads::Place>(between(0, beside ? 2 : 1)), .layers = {}, .disagreement = between(0, 80) / 100.0};
    for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(s.stages.size()); ++layer) {
      if (chance(30)) heads.layers.push_back(layer);
    }
    heads.layers.push_back(kOutputFeatures);
    s.heads.push_back(std::move(heads));
  }
}

}  // namespace yamata::test
