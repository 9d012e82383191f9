#pragma once
// The most probable tokens of a draft.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

struct BestChoice {
  std::int32_t token;
  float probability;  ///< softmax of all logits
};

/// The tokens of a row's best logits with their probabilities. `log_sum_exp`: of all logits of the row; see
/// src/sampling/best_logits.hpp. A token of -1 (no more usable tokens) ends the row.
std::vector<BestChoice> best_choices(std::span<const std::int32_t> tokens, std::span<const float> logits, float log_sum_exp);

/// The `count` most probable tokens of the whole vocabulary, or as many as have a probability; of equal ones the lowest id first.
std::vector<BestChoice> best_choices(std::span<const float> logits, std::size_t count);

}  // namespace yamata
