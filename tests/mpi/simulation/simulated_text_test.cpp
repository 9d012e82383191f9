// The texts, drafts and widths of simulated jobs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/simulation/synthetic_text.hpp"
#include "src/simulation/table_model.hpp"
#include "src/simulation/width_cost.hpp"

namespace yamata::simulation {
namespace {

TEST(SyntheticText, OverConfidence_isFoundFromTheFirstChoices) {
  for (const double top1 : {0.3, 0.65, 0.9}) {
    for (const double x : {-0.6, -0.2, 0.0, 0.5, 2.0}) {
      TextOptions options{.top1 = top1, .top4 = top1 + 0.58 * (1 - top1), .over_confidence = x};
      const double of_first = SyntheticText(options).mean_first_probability();
      const double found = over_confidence_of(options, of_first);
      // otherwise an over-confident draft is less certain of its first choice, because several are equally probable
      if (top1 > 0.5 || x <= 0) {
        EXPECT_NEAR(found, x, 1e-4) << top1;
      }
      options.over_confidence = found;
      EXPECT_NEAR(SyntheticText(options).mean_first_probability(), of_first, 1e-3) << top1 << ", " << x;
      if (x == 0) {
        EXPECT_NEAR(of_first, top1, 1e-6) << "its probabilities are right";
      }
    }
  }
  EXPECT_NEAR(over_confidence_of({}, 0), -0.95, 1e-6) << "no draft is less sure";
}

TEST(WidthCost, ShareOrTable_givesTheMultiples) {
  EXPECT_DOUBLE_EQ(WidthCost({0.05})(1), 1.0);
  EXPECT_DOUBLE_EQ(WidthCost({0.05})(5), 1.2);
  const WidthCost table({2, 2.2, 2.6});
  EXPECT_DOUBLE_EQ(table(2), 1.1);
  EXPECT_DOUBLE_EQ(table(5), 1.7);
}

TEST(SyntheticText, Ranks_comeAsOftenAsAskedForAndAsStated) {
  const SyntheticText text({7, 0.65, 0.85, 0, 64});
  std::vector<float> logits(static_cast<std::size_t>(text.vocabulary()));
  constexpr int kPrefixes = 20000;
  double first = 0, first_four = 0, draft_probabilities = 0;
  for (std::uint64_t i = 0; i < kPrefixes; ++i) {
    const std::uint64_t prefix = mix(i, 99);
    text.draft_logits(0, prefix, logits);
    const auto truth = static_cast<std::size_t>(text.next(prefix));
    const auto above = std::count_if(logits.begin(), logits.end(), [&](float l) { return l > logits[truth]; });
    first += above == 0;
    first_four += above < 4;
    draft_probabilities += std::exp(static_cast<double>(*std::max_element(logits.begin(), logits.end())));
  }
  EXPECT_NEAR(first / kPrefixes, 0.65, 0.015);
  EXPECT_NEAR(first_four / kPrefixes, 0.85, 0.015);
  EXPECT_NEAR(draft_probabilities / kPrefixes, 0.65, 0.015);
}

}  // namespace
}  // namespace yamata::simulation
