#include "src/speculation/recorded_ranks.hpp"

#include <algorithm>

namespace yamata {

LevelAccuracies accuracies_of(std::span<const RankedText> texts, std::int32_t most) {
  LevelAccuracies accuracies;
  std::vector<double> reached;
  for (const RankedText& text : texts) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      for (std::size_t level = 0; level < std::min(text[at].size(), text.size() - at); ++level) {
        if (accuracies.size() <= level) accuracies.emplace_back(), reached.push_back(0);
        ++reached[level];
        const std::int32_t rank = text[at][level];
        if (rank < 0) break;
        if (rank >= most) continue;
        auto& right = accuracies[level];
        right.resize(std::max(right.size(), static_cast<std::size_t>(rank) + 1));
        ++right[static_cast<std::size_t>(rank)];
      }
    }
  }
  for (std::size_t level = 0; level < accuracies.size(); ++level)
    for (double& right : accuracies[level]) right /= reached[level];
  return accuracies;
}

}  // namespace yamata
