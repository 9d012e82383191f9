#pragma once
// What a draft finds most probable, out of its logits.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

struct BestChoice {
  std::int32_t token;
  float probability;  ///< softmax of all logits
};

/// The `count` most probable tokens, or as many as there are; of equal ones the lowest first. A draft does this for every node that it
/// expands: in one pass over the logits, without a copy of them.
std::vector<BestChoice> best_choices(std::span<const float> logits, std::size_t count);

}  // namespace yamata
