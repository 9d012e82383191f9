#pragma once
// Typical acceptance (Medusa): a guess is accepted if it is probable enough, even if another token would have been sampled. Not lossless.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

struct TypicalAcceptance {
  float epsilon = 0.09f, delta = 0.3f;  ///< a token is accepted if its probability is above min(epsilon, delta e^-H); H: entropy in nats
  float temperature = 1;                ///< above 0
  std::vector<std::int32_t> banned{};   ///< tokens that are never accepted
};

/// The target's distribution after a token: softmax(logits / temperature).
class TypicalRow {
 public:
  TypicalRow(std::span<const float> logits, const TypicalAcceptance& rule);
  bool accepts(std::int32_t token) const;
  double log_probability(std::int32_t token) const;

 private:
  std::span<const float> logits_;
  const TypicalAcceptance& rule_;
  double log_sum_ = 0, least_ = 0;  // least log-probability that is accepted
};

}  // namespace yamata
