#include "launch/program/planning/first_choices.hpp"

#include <algorithm>

namespace yamata {

FirstChoices first_choices(const std::vector<std::vector<Choice>>& choices, std::span<const std::int32_t> tokens, double otherwise) {
  const std::size_t count = std::min(choices.size(), tokens.size());
  double right = 0, asked = 0, probability = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (choices[i].empty()) continue;
    const Choice& first = *std::ranges::max_element(choices[i], {}, &Choice::draft_probability);
    right += first.token == tokens[i] ? 1 : 0;
    probability += static_cast<double>(first.draft_probability);
    ++asked;
  }
  if (asked == 0) return {};
  const auto all = static_cast<double>(count);
  return {(right + (all - asked) * otherwise) / all, probability / asked};
}

}  // namespace yamata
