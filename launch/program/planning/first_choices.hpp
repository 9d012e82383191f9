#pragma once
// The acceptance of a draft's first choices in a text, and the cost of its evaluations.
#include <cstdint>
#include <span>
#include <vector>

#include "src/speculation/calibration.hpp"

namespace yamata {

struct FirstChoices {
  double right = 0;        ///< share of the text's tokens that were the draft's first choice
  double probability = 0;  ///< their mean draft probability; 0: unknown
  double cost = 1;         ///< time of a draft evaluation, relative to the time in which its rank computes as many bytes of the target
};

/// `choices`: per token, the draft's guesses at its position. There are none if guesses were not worth their time, or if earlier text was
/// followed; the share `otherwise` of these tokens is assumed to be the draft's first choice.
FirstChoices first_choices(const std::vector<std::vector<Choice>>& choices, std::span<const std::int32_t> tokens, double otherwise);

}  // namespace yamata
