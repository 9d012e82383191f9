#pragma once
// A model's most probable text, with the probabilities of the ten best tokens at each step.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace yamata::families_test {

/// One step: the chosen token, and the ten best with the logarithms of their probabilities, in descending order.
struct Step {
  std::int32_t id = 0;
  std::vector<std::pair<std::int32_t, double>> best;
};
using Text = std::vector<Step>;

/// The step for these logits of all tokens.
Step greedy_step(const float* logits, std::size_t tokens);

/// Reads a text in the format of tests/families/expected: a line per step with the id, then "id:logarithm" of the ten best. Lines that
/// begin with # are comments. Empty if there is no such file.
Text read_text(const std::string& path);

}  // namespace yamata::families_test
