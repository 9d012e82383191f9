#pragma once
// Ranks of the true tokens among a source's guesses, as recorded in texts, for trees that are built from them.
#include <cstdint>
#include <span>

#include "src/speculation/tree_builder.hpp"

namespace yamata {

/// Which trees can be built from recorded ranks.
struct GuessLimits {
  int draft = 64;     ///< trees with at most so many guesses
  int children = 64;  ///< of which no token has so many after it
};

/// How often each rank below `most` was correct, of the positions where the ranks of all nearer levels are known.
LevelAccuracies accuracies_of(std::span<const RankedText> texts, std::int32_t most = 64);

}  // namespace yamata
