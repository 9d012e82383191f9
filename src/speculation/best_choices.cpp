#include "src/speculation/best_choices.hpp"

#include <algorithm>
#include <cmath>

namespace yamata {

std::vector<BestChoice> best_choices(std::span<const float> logits, std::size_t count) {
  // Improbable beyond a share of e^-20 of the best: all of a vocabulary's together are less than a thousandth of it.
  constexpr float kLeast = -20;
  std::vector<std::int32_t> best;
  const auto logit = [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
  count = std::min(count, logits.size());
  if (count == 0) return {};
  for (std::int32_t token = 0; token < static_cast<std::int32_t>(logits.size()); ++token) {
    if (best.size() == count && !(logit(token) > logit(best.back()))) continue;
    if (best.size() == count) best.pop_back();
    best.insert(std::find_if(best.begin(), best.end(), [&](std::int32_t other) { return logit(other) < logit(token); }), token);
  }
  double sum = 0;
  for (const float l : logits) {
    if (const float behind = l - logit(best[0]); behind > kLeast) sum += static_cast<double>(std::exp(behind));
  }
  std::vector<BestChoice> choices;
  for (const std::int32_t token : best)
    choices.push_back({token, static_cast<float>(static_cast<double>(std::exp(logit(token) - logit(best[0]))) / sum)});
  return choices;
}

}  // namespace yamata
