#pragma once
// The most probable text of a model, and how probable it and its rivals were.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace yamata::families_test {

/// One step: the token taken, and the ten best with the logarithms of their probabilities, the best first.
struct Step {
  std::int32_t id = 0;
  std::vector<std::pair<std::int32_t, double>> best;
};
using Text = std::vector<Step>;

/// The step that these logits of all tokens give.
Step greedy_step(const float* logits, std::size_t tokens);

/// A text as it is kept in tests/families/expected: a line for each step, the id, then "id:logarithm" of the ten best. Lines that begin
/// with # are comments. Empty where there is no such file.
Text read_text(const std::string& path);

}  // namespace yamata::families_test
