#pragma once
// What a draft's first choices were worth in a text.
#include <cstdint>
#include <span>
#include <vector>

#include "src/speculation/calibration.hpp"

namespace yamata {

struct FirstChoices {
  double right = 0;        ///< share of the text's tokens
  double probability = 0;  ///< that the draft gave them, in the mean; 0: nothing is known of them
};

/// `choices`: per token, what the draft had guessed in its place. It is not asked where guesses are not worth their time, or where the text
/// itself was followed; of these tokens half are taken to be its first choice.
FirstChoices first_choices(const std::vector<std::vector<Choice>>& choices, std::span<const std::int32_t> tokens);

}  // namespace yamata
