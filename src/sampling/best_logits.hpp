#pragma once
// The highest logits, for sampling that does not read all of them.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

/// The highest logits of some rows, row after row, each in the order of the sampler: the highest first, ties by id.
struct BestLogits {
  std::vector<std::int32_t> tokens;  ///< [rows][count]; -1 if a row has fewer logits that are numbers above minus infinity
  std::vector<float> values;         ///< [rows][count]
};

/// `logits`: [rows][vocabulary]. Returns `count` logits of each row, at least 1 and at most `vocabulary`.
BestLogits best_logits(std::span<const float> logits, std::size_t vocabulary, std::size_t count);

/// log of the sum of exp(logit): a token's probability is exp(logit - log_sum_exp). Minus infinity if no logit is above that. Exact to
/// about 1e-6. NaN counts as minus infinity. `highest`: of these logits, as best_logits finds it.
float log_sum_exp(std::span<const float> logits, float highest);
/// The same if the highest is not known.
float log_sum_exp(std::span<const float> logits);

/// A row of the whole vocabulary with these logits, and minus infinity elsewhere: sampling gives the same token.
std::vector<float> spread_logits(std::span<const std::int32_t> tokens, std::span<const float> values, std::size_t vocabulary);

}  // namespace yamata
