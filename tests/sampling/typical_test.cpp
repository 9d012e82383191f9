// Typical acceptance, compared with computations by hand.
#include "src/sampling/typical.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace yamata {
namespace {

std::vector<float> logits_of(std::initializer_list<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + 3);  // a shift changes nothing
  return logits;
}

TEST(Typical, WhereTheTargetIsSure_epsilonDecides) {
  const auto logits = logits_of({0.85, 0.1, 0.05});  // entropy .518: delta e^-H = .179
  const TypicalAcceptance rule;
  const TypicalRow row(logits, rule);
  EXPECT_TRUE(row.accepts(0));
  EXPECT_TRUE(row.accepts(1));
  EXPECT_FALSE(row.accepts(2));
  EXPECT_NEAR(row.log_probability(1), std::log(0.1), 1e-6);
}

TEST(Typical, WhereItIsNot_lessSuffices) {
  std::vector<float> logits(100, 0);  // entropy ln 100: .3 / 100
  const TypicalAcceptance rule;
  EXPECT_TRUE(TypicalRow(logits, rule).accepts(5)) << ".01";
  logits[5] = -1.5f;
  EXPECT_FALSE(TypicalRow(logits, rule).accepts(5)) << ".0022";
}

TEST(Typical, Temperature_flattens) {
  const auto logits = logits_of({0.85, 0.1, 0.05});
  TypicalAcceptance rule;
  rule.temperature = 2;
  EXPECT_TRUE(TypicalRow(logits, rule).accepts(2));
}

TEST(Typical, BannedAndImpossibleTokens_areNotAccepted) {
  auto logits = logits_of({0.5, 0.5, 0.5});
  logits[2] = -INFINITY;
  TypicalAcceptance rule;
  rule.banned = {1};
  const TypicalRow row(logits, rule);
  EXPECT_TRUE(row.accepts(0));
  EXPECT_FALSE(row.accepts(1));
  EXPECT_FALSE(row.accepts(2));
}

}  // namespace
}  // namespace yamata
