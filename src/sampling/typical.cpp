#include "src/sampling/typical.hpp"

#include <algorithm>
#include <cmath>

namespace yamata {

TypicalRow::TypicalRow(std::span<const float> logits, const TypicalAcceptance& rule) : logits_(logits), rule_(rule) {
  const double temperature = static_cast<double>(rule.temperature);
  const double most = static_cast<double>(*std::max_element(logits.begin(), logits.end())) / temperature;
  double sum = 0, weighted = 0;  // of e^(x - most), and of (x - most) e^(x - most)
  for (const float logit : logits) {
    const double x = static_cast<double>(logit) / temperature - most;
    if (std::isinf(x)) continue;
    sum += std::exp(x);
    weighted += x * std::exp(x);
  }
  log_sum_ = most + std::log(sum);
  const double entropy = std::log(sum) - weighted / sum;
  least_ = std::log(std::min(static_cast<double>(rule.epsilon), static_cast<double>(rule.delta) * std::exp(-entropy)));
}

double TypicalRow::log_probability(std::int32_t token) const {
  return static_cast<double>(logits_[static_cast<std::size_t>(token)]) / static_cast<double>(rule_.temperature) - log_sum_;
}

bool TypicalRow::accepts(std::int32_t token) const {
  return std::find(rule_.banned.begin(), rule_.banned.end(), token) == rule_.banned.end() && log_probability(token) > least_;
}

}  // namespace yamata
