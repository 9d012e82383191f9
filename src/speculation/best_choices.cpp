#include "src/speculation/best_choices.hpp"

#include <algorithm>
#include <cmath>

#include "src/sampling/best_logits.hpp"

namespace yamata {

std::vector<BestChoice> best_choices(std::span<const std::int32_t> tokens, std::span<const float> logits, float log_sum_exp) {
  std::vector<BestChoice> choices;
  for (std::size_t i = 0; i < tokens.size() && tokens[i] >= 0; ++i)
    choices.push_back({tokens[i], std::min(1.0f, std::exp(logits[i] - log_sum_exp))});
  return choices;
}

std::vector<BestChoice> best_choices(std::span<const float> logits, std::size_t count) {
  count = std::min(count, logits.size());
  if (count == 0) return {};
  const BestLogits best = best_logits(logits, logits.size(), count);
  return best_choices(best.tokens, best.values, log_sum_exp(logits, best.values.front()));
}

}  // namespace yamata
