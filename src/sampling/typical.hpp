#pragma once
// Typical acceptance (Medusa): a guess need not be what would have been drawn, only likely enough. Not lossless.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

struct TypicalAcceptance {
  float epsilon = 0.09f, delta = 0.3f;  ///< a token is accepted whose probability is above min(epsilon, delta e^-H), H the entropy in nats
  float temperature = 1;                ///< above 0
  std::vector<std::int32_t> banned{};   ///< tokens that are never accepted
};

/// What the target says after a token: softmax(logits / temperature).
class TypicalRow {
 public:
  TypicalRow(std::span<const float> logits, const TypicalAcceptance& rule);
  bool accepts(std::int32_t token) const;
  double log_probability(std::int32_t token) const;

 private:
  std::span<const float> logits_;
  const TypicalAcceptance& rule_;
  double log_sum_ = 0, least_ = 0;  // of the log of a probability that is accepted
};

}  // namespace yamata
