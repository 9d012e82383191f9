#pragma once
// The most probable tokens of a draft, from its logits.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

struct BestChoice {
  std::int32_t token;
  float probability;  ///< softmax of all logits
};

/// The `count` most probable tokens, or as many as there are; of equal ones the lowest id first. One pass over the logits without a copy,
/// because a draft does this for every expanded node.
std::vector<BestChoice> best_choices(std::span<const float> logits, std::size_t count);

}  // namespace yamata
