// PipeInfer's chains of guesses.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "src/speculation/policy.hpp"
#include "src/speculation/shaped_policies.hpp"
#include "tests/speculation/example_tree.hpp"

namespace yamata {
namespace {

using Nodes = std::vector<NodeId>;

TEST(Chain, Choose_extendsTheBestPathAndOpensBranchesWhereTheRunnersUpAreProbable) {
  test::ExampleTree x;
  PolicyOptions options;
  options.name = "chain";
  EXPECT_EQ(Chain(options).choose(x.tree, 10, {}), (Nodes{x.a, x.b}));
  options.accept = 0.6f;
  EXPECT_EQ(Chain(options).choose(x.tree, 10, {}), (Nodes{x.a}));
  options.accept = 0.5f;
  options.branches = 2;
  options.split = 0.3f;
  EXPECT_EQ(Chain(options).choose(x.tree, 10, {}), (Nodes{x.a, x.b, x.c}));
  x.tree.at(x.a).sent = true;
  EXPECT_EQ(Chain(options).choose(x.tree, 10, {}), (Nodes{x.b, x.c}));
}

TEST(Chain, CutOff_risesWithEveryRunAndFallsBackOnAHit) {
  test::ExampleTree x;
  PolicyOptions options;
  options.name = "chain";
  options.recovery = 0.2f;
  Chain policy(options);
  policy.submitted();
  policy.submitted();  // .5 + 2 * .2
  EXPECT_TRUE(policy.choose(x.tree, 10, {}).empty());
  policy.committed(true);
  EXPECT_EQ(policy.choose(x.tree, 10, {}), (Nodes{x.a, x.b}));
}

TEST(Chain, CutOff_fallsBackWithEveryResult) {
  test::ExampleTree x;
  PolicyOptions options;
  options.name = "chain";
  options.recovery = 0.4f;
  Chain policy(options);
  for (int i = 0; i < 3; ++i) policy.submitted();
  EXPECT_TRUE(policy.choose(x.tree, 10, {}).empty());
  policy.committed(false);
  EXPECT_EQ(policy.choose(x.tree, 10, {}), (Nodes{x.a, x.b})) << "else it would never guess again";
}

TEST(Chain, CutOff_decaysByEveryFailedAttempt) {
  test::ExampleTree x;
  PolicyOptions options;
  options.name = "chain";
  options.recovery = 0.25f;
  options.decay = 0.0625f;
  Chain policy(options);
  policy.submitted();
  policy.submitted();  // .5 + 2 * .25, and .8 is the best
  for (int failed = 0; failed < 4; ++failed) EXPECT_TRUE(policy.choose(x.tree, 10, {}).empty()) << failed;
  EXPECT_EQ(policy.choose(x.tree, 10, {}), (Nodes{x.a}));
  policy.committed(true);
  for (int i = 0; i < 2; ++i) policy.submitted();
  EXPECT_TRUE(policy.choose(x.tree, 10, {}).empty()) << "attempts are counted anew";
}

TEST(Chain, Choice_isTheDraftsOwn_andUnfinishedWhereMoreMayBeDrafted) {
  test::ExampleTree x;
  PolicyOptions options;
  options.name = "chain";
  options.draft = 3;
  options.decay = 0.5f;
  Chain policy(options);
  x.tree.at(x.c).draft_probabilities[0].value = 0.6f;
  EXPECT_EQ(policy.choose(x.tree, 10, {}), (Nodes{x.a, x.c})) << "before calibration, c is the first choice";
  EXPECT_TRUE(policy.is_unfinished());
  x.tree.at(x.a).sent = x.tree.at(x.c).sent = true;
  EXPECT_TRUE(policy.choose(x.tree, 10, {}).empty());
  EXPECT_TRUE(policy.is_unfinished());
  const NodeId f = x.tree.add(x.c, 7, 0.4f, {0, 0.4f});
  EXPECT_TRUE(policy.choose(x.tree, 10, {}).empty()) << "an attempt without a known guess has not failed";
  EXPECT_FALSE(policy.is_unfinished()) << "the cut-off ends the batch";
  EXPECT_EQ(policy.choose(x.tree, 1, {}), (Nodes{f}));
  EXPECT_FALSE(policy.is_unfinished()) << "it is full";
}

TEST(Chain, DraftOptions_areThoseOfAGreedyChain) {
  PolicyOptions options;
  options.name = "chain";
  options.accept = 0.25f, options.split = 0.75f, options.branches = 3;
  const DraftOptions draft = draft_options(options);
  EXPECT_EQ(std::tuple(draft.width, draft.children, draft.branches), std::tuple(1, 3, 3));
  EXPECT_EQ(std::tuple(draft.threshold, draft.accept, draft.split), std::tuple(0.0f, 0.25f, 0.75f));
  EXPECT_TRUE(Chain(options).considers_costs());
  options.at_any_cost = true;
  EXPECT_FALSE(Chain(options).considers_costs());
  options.branches = 0;
  EXPECT_EQ(draft_options(options).branches, 1);
}

}  // namespace
}  // namespace yamata
