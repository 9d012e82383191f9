// The papers' policies: which guesses of a tree go into a run, to the node, ties included.
#include "src/speculation/policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "src/speculation/guess_recorder.hpp"
#include "src/speculation/make_policy.hpp"
#include "src/speculation/run_shape.hpp"
#include "src/speculation/shaped_policies.hpp"

namespace yamata {
namespace {

using Nodes = std::vector<NodeId>;

PolicyOptions options(const std::string& name, int draft) {
  PolicyOptions options;
  options.name = name;
  options.draft = draft;
  return options;
}

/// root -> a .5, b .3, c .2; a -> aa .6, ab .4; b -> ba 1; aa -> aaa .5
struct PolicyExample {
  PolicyExample() : tree(1, 10) {
    const NodeId root = tree.root().id;
    c = tree.add(root, 4, 0.2f, {0, 0.2f});
    a = tree.add(root, 2, 0.5f, {0, 0.5f});
    b = tree.add(root, 3, 0.3f, {0, 0.3f});
    ab = tree.add(a, 6, 0.4f, {0, 0.4f});
    aa = tree.add(a, 5, 0.6f, {0, 0.6f});
    ba = tree.add(b, 7, 1.0f, {0, 1.0f});
    aaa = tree.add(aa, 8, 0.5f, {0, 0.5f});
  }
  TokenTree tree;
  NodeId a, b, c, aa, ab, ba, aaa;
};

StaticTree shape(std::initializer_list<StaticTree::Node> nodes) {
  StaticTree tree;
  tree.nodes.insert(tree.nodes.end(), nodes);
  return tree;
}

TEST(RunShape, Guesses_haveRanksAmongAllChildren_inTheOrderOfTheRows) {
  PolicyExample x;
  const StaticTree made = run_shape(x.tree, Nodes{x.tree.root().id, x.b, x.a, x.ab, x.ba});
  EXPECT_EQ(made, shape({{0, 0, 1}, {0, 0, 0}, {2, 1, 1}, {1, 1, 0}})) << "aa, the best below a, is not in the run";
  EXPECT_EQ(paths_of(made), (std::vector<std::vector<std::int32_t>>{{}, {1}, {0}, {0, 1}, {1, 0}}));
  const NodeId d = x.tree.add(x.tree.root().id, 9, 0.01f, {0, 0.9f});
  EXPECT_EQ(run_shape(x.tree, Nodes{x.tree.root().id, d}), shape({{0, 0, 0}})) << "by what the source said, which calibration changes";
}

TEST(StaticTreePolicy, Guesses_areThoseOfTheShapesRanks) {
  PolicyExample x;
  PolicyOptions o = options("static-tree", 4);
  o.tree = shape({{0, 0, 1}, {1, 1, 0}, {0, 0, 0}, {3, 1, 1}});  // 2nd, the 1st below it, 1st, the 2nd below it
  const auto policy = make_policy(o);
  EXPECT_TRUE(policy->fills_root_run());
  EXPECT_EQ(policy->choose(x.tree, 100, {}), (Nodes{x.a, x.b, x.ab, x.ba}));
  EXPECT_EQ(policy->choose(x.tree, 100, {.occupancy = {0, 9, 9, 9, 9}, .lateness = {}}).size(), 4u) << "whatever they cost";
}

TEST(StaticTreePolicy, GuessesThatAreOut_areNotSentAgain_norWhatIsNotThere) {
  PolicyExample x;
  PolicyOptions o = options("static-tree", 8);
  o.tree = shape({{0, 0, 0}, {1, 1, 0}, {2, 2, 0}, {3, 3, 0}, {0, 0, 5}});
  x.tree.at(x.a).sent = true;
  EXPECT_EQ(make_policy(o)->choose(x.tree, 100, {}), (Nodes{x.aa, x.aaa}));
}

TEST(StaticTreePolicy, LittleRoom_isFilledFromAbove) {
  PolicyExample x;
  PolicyOptions o = options("static-tree", 8);
  o.tree = shape({{0, 0, 0}, {1, 1, 0}, {2, 2, 0}, {0, 0, 1}});
  EXPECT_EQ(make_policy(o)->choose(x.tree, 3, {}), (Nodes{x.a, x.b, x.aa}));
  EXPECT_EQ(make_policy(o)->choose(x.tree, 1, {}), (Nodes{x.a}));
}

TEST(StaticTreePolicy, EqualProbabilities_areRankedByAge) {
  TokenTree tree(1, 0);
  const NodeId first = tree.add(tree.root().id, 5, 0.4f, {0, 0});
  tree.add(tree.root().id, 6, 0.4f, {0, 0});
  PolicyOptions o = options("static-tree", 8);
  o.tree = shape({{0, 0, 0}});
  EXPECT_EQ(make_policy(o)->choose(tree, 9, {}), Nodes{first});
}

TEST(StaticTreePolicy, Ranks_areTheSourcesOwn_whateverCalibrationMakesOfThem) {
  TokenTree tree(1, 0);
  const NodeId first = tree.add(tree.root().id, 5, 0.1f, {0, 0.6f});
  const NodeId second = tree.add(tree.root().id, 6, 0.2f, {0, 0.4f});
  const NodeId below = tree.add(first, 7, 0.1f, {0, 0.9f});
  PolicyOptions o = options("static-tree", 8);
  o.tree = shape({{0, 0, 0}, {1, 1, 0}, {0, 0, 1}});
  EXPECT_EQ(make_policy(o)->choose(tree, 9, {}), (Nodes{first, second, below}));
}

TEST(StaticTreePolicy, WithoutAShape_isGrownFromUsualAccuracies) {
  const StaticTree tree = static_tree(5);
  ASSERT_EQ(tree.width(), 6);
  // .64; .64 .49 = .314; .64 / 3 = .213; .314 .43 = .135; .64 .49 / 3 and .64 / 3 .49 are equal: .105
  EXPECT_GE(tree.child(0, 0), 0);
  EXPECT_GE(tree.child(0, 1), 0);
  const int second = tree.child(tree.child(0, 0), 0);
  ASSERT_GE(second, 0);
  EXPECT_GE(tree.child(second, 0), 0);
  PolicyExample x;
  EXPECT_EQ(make_policy(options("static-tree", 3))->choose(x.tree, 9, {}), (Nodes{x.a, x.b, x.aa}));
}

TEST(DynamicTreePolicy, MostProbableNodes_withinDepthAndChildren) {
  PolicyExample x;  // paths: a .5, b .3, ba .3, aa .3, c .2, ab .2, aaa .15
  const auto chosen = [&](int n, int depth, int children) {
    PolicyOptions o = options("dynamic-tree", n);
    o.depth = depth;
    o.children = children;
    return make_policy(o)->choose(x.tree, 100, {});
  };
  EXPECT_EQ(chosen(1, 4, 32), (Nodes{x.a}));
  EXPECT_EQ(chosen(2, 4, 32), (Nodes{x.a, x.b})) << "of equals the shallower";
  EXPECT_EQ(chosen(3, 4, 32), (Nodes{x.a, x.b, x.aa})) << "then the older";
  EXPECT_EQ(chosen(4, 4, 32), (Nodes{x.a, x.b, x.aa, x.ba}));
  EXPECT_EQ(chosen(7, 4, 32), (Nodes{x.c, x.a, x.b, x.ab, x.aa, x.ba, x.aaa}));
  EXPECT_EQ(chosen(7, 2, 32), (Nodes{x.c, x.a, x.b, x.ab, x.aa, x.ba}));
  EXPECT_EQ(chosen(7, 1, 32), (Nodes{x.c, x.a, x.b}));
  EXPECT_EQ(chosen(7, 4, 1), (Nodes{x.a, x.aa, x.aaa}));
}

TEST(DynamicTreePolicy, NodesInFlight_countAmongTheN) {
  PolicyExample x;
  x.tree.at(x.a).sent = x.tree.at(x.b).sent = true;
  EXPECT_EQ(make_policy(options("dynamic-tree", 3))->choose(x.tree, 100, {}), (Nodes{x.aa}));
  EXPECT_TRUE(make_policy(options("dynamic-tree", 2))->choose(x.tree, 100, {}).empty());
  EXPECT_EQ(make_policy(options("dynamic-tree", 7))->choose(x.tree, 2, {}), (Nodes{x.aa, x.ba}));
}

/// Medusa's Algorithm 1 as it is written, level by level with a queue of n.
Nodes algorithm_1(const TokenTree& tree, int depth, int children, std::size_t n) {
  Nodes kept;
  const auto trim = [&] {
    std::sort(kept.begin(), kept.end(), [&](NodeId a, NodeId b) { return goes_before(tree.at(a), tree.at(b)); });
    if (kept.size() > n) kept.resize(n);
  };
  const auto below = [&](NodeId id) {
    Nodes ranked = ranked_children(tree, id);
    ranked.resize(std::min(ranked.size(), static_cast<std::size_t>(children)));
    return ranked;
  };
  kept = below(tree.root().id);
  trim();
  for (int k = 2; k <= depth; ++k) {
    const Nodes before = kept;
    for (const NodeId id : before) {
      if (tree.at(id).position - tree.root().position != k - 1) continue;
      for (const NodeId child : below(id)) kept.push_back(child);
    }
    trim();
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

TEST(DynamicTreePolicy, RandomTrees_giveWhatTheAlgorithmAsWrittenGives) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    TokenTree tree(0, 0);
    Nodes all{tree.root().id};
    for (std::int32_t i = 1; i < 60; ++i) {
      const float probability = static_cast<float>(1 + random() % 4) / 4;  // many ties
      all.push_back(tree.add(all[random() % all.size()], i, probability, {0, 0}));
    }
    PolicyOptions o = options("dynamic-tree", 1 + static_cast<int>(random() % 40));
    o.depth = 1 + static_cast<int>(random() % 6);
    o.children = 1 + static_cast<int>(random() % 5);
    ASSERT_EQ(make_policy(o)->choose(tree, 100, {}), algorithm_1(tree, o.depth, o.children, static_cast<std::size_t>(o.draft))) << seed;
  }
}

TEST(MultiSequence, Budget_isTheNumberOfManyDivisorsBelowTheCostRatio) {
  EXPECT_EQ(MultiSequence::budget(17.5, 64), 16u);
  EXPECT_EQ(MultiSequence::budget(11.9, 64), 8u);
  EXPECT_EQ(MultiSequence::budget(24, 64), 24u);
  EXPECT_EQ(MultiSequence::budget(24, 10), 8u);
  EXPECT_EQ(MultiSequence::budget(0, 10), 8u) << "the source takes no time";
  EXPECT_EQ(MultiSequence::budget(0.5, 10), 1u) << "it is waited for";
}

TEST(MultiSequence, FirstTokensAboveTheBestTwo_eachBeginASequence) {
  const auto count = [](const TokenTree& tree, const Nodes& firsts, std::size_t budget, int fixed = 0) {
    return MultiSequence::sequence_count(tree, firsts, budget, fixed);
  };
  TokenTree unequal(1, 0);
  const NodeId most = unequal.add(unequal.root().id, 2, 0.1f, {0, 0.5f}), equal = unequal.add(unequal.root().id, 3, 0.9f, {0, 0.3f});
  unequal.add(most, 4, 0.1f, {0, 0.6f});
  EXPECT_EQ(count(unequal, {most, equal}, 6), 1u) << ".3 is not above .5 .6, by the draft's own probabilities";
  TokenTree tree(1, 0);
  const NodeId a = tree.add(tree.root().id, 2, 0, {0, 0.4f}), b = tree.add(tree.root().id, 3, 0, {0, 0.3f});
  const NodeId c = tree.add(tree.root().id, 4, 0, {0, 0.21f});
  tree.add(a, 5, 0, {0, 0.5f});  // .2
  EXPECT_EQ(count(tree, {a, b, c}, 6), 3u);
  EXPECT_EQ(count(tree, {a, b, c}, 8), 2u) << "3 does not divide 8";
  EXPECT_EQ(count(tree, {a}, 8), 1u);
  EXPECT_EQ(count(tree, {a, b, c}, 8, 3), 3u);
  EXPECT_EQ(count(tree, {a, b}, 8, 3), 2u) << "there are two first tokens";
  EXPECT_EQ(count(tree, {a, b, c}, 2, 3), 2u) << "each has a guess";
  EXPECT_EQ(count(tree, {b, c}, 6), 1u) << "what follows b is not known";
  TokenTree many(1, 0);
  Nodes firsts;
  for (std::int32_t i = 0; i < 10; ++i) firsts.push_back(many.add(many.root().id, 2 + i, 0, {0, 0.1f}));
  many.add(firsts[0], 20, 0, {0, 0.5f});
  EXPECT_EQ(count(many, firsts, 60), 6u) << "at most 8, which do not divide 60";
  MultiSequence policy(options("multi-sequence", 6));
  EXPECT_EQ(policy.sequences(tree, tree.root().id), 3u);
  EXPECT_EQ(policy.sequences(tree, c), 0u) << "nothing is drafted after it";
}

TEST(MultiSequence, Step_hasTheBudgetOfTheCostRatio_orAFixedOne) {
  PolicyOptions o = options("multi-sequence", 16);
  MultiSequence policy(o);
  policy.plan_step(9);
  EXPECT_EQ(policy.budget(), 8u);
  EXPECT_TRUE(policy.goes_in_steps());
  EXPECT_FALSE(policy.considers_costs());
  o.budget = 5;  // above the cost ratio, and not a number of many divisors
  MultiSequence fixed(o);
  fixed.plan_step(2);
  EXPECT_EQ(fixed.budget(), 5u);
  EXPECT_FALSE(BestFirst(o).goes_in_steps());
}

TEST(MultiSequence, DraftsSearch_hasItsSequences_andSpaceForTwoSteps) {
  PolicyOptions o = options("multi-sequence", 60);
  EXPECT_EQ(draft_options(o).sequences, 8);
  EXPECT_EQ(draft_options(o).children, 8);
  EXPECT_FALSE(draft_options(o).fixed_sequences);
  EXPECT_EQ(draft_options(o).credit, 120);
  o.sequences = 3;
  EXPECT_EQ(draft_options(o).sequences, 3);
  EXPECT_TRUE(draft_options(o).fixed_sequences);
  EXPECT_EQ(draft_options(options("best-first", 60)).sequences, 0);
}

/// Chooses from `tree` in a step with this budget.
Nodes chosen_in_step(const TokenTree& tree, double drafted, std::size_t capacity = 100, int sequences = 0) {
  PolicyOptions o = options("multi-sequence", 8);
  o.sequences = sequences;
  MultiSequence policy(o);
  policy.plan_step(drafted);
  return policy.choose(tree, capacity, {});
}

TEST(MultiSequence, Budget_isSharedOutEqually_andEachSequenceGoesOnGreedily) {
  TokenTree tree(1, 0);
  const NodeId a = tree.add(tree.root().id, 2, 0, {0, 0.5f}), b = tree.add(tree.root().id, 3, 0, {0, 0.4f});
  const NodeId aa = tree.add(a, 4, 0, {0, 0.3f}), ab = tree.add(a, 5, 0, {0, 0.2f});
  const NodeId ba = tree.add(b, 6, 0, {0, 0.9f}), bba = tree.add(ba, 7, 0, {0, 0.9f});
  EXPECT_EQ(chosen_in_step(tree, 4.5), (Nodes{a, b, aa, ba}));
  EXPECT_EQ(chosen_in_step(tree, 6), (Nodes{a, b, aa, ba, bba}));
  EXPECT_EQ(chosen_in_step(tree, 6, 3), (Nodes{a, b, aa})) << "as many as there are cells for";
  EXPECT_EQ(chosen_in_step(tree, 1), (Nodes{a}));
  EXPECT_EQ(chosen_in_step(tree, 4, 100, 1), (Nodes{a, aa}));
  EXPECT_EQ(chosen_in_step(tree, 8, 2), (Nodes{a, aa}));
  tree.at(a).sent = true;
  EXPECT_EQ(chosen_in_step(tree, 4), (Nodes{b, aa, ba}));
  EXPECT_TRUE(tree.alive(ab));
  EXPECT_TRUE(chosen_in_step(TokenTree(1, 0), 4).empty());
}

TEST(MultiSequence, SequenceThatTheLastResultChose_isTakenWhole) {
  TokenTree tree(1, 0);
  Nodes chain{tree.root().id};
  for (std::int32_t i = 0; i < 10; ++i) chain.push_back(tree.add(chain.back(), 2 + i, 0, {0, 0.5f}));
  EXPECT_EQ(chosen_in_step(tree, 2), Nodes(chain.begin() + 1, chain.begin() + 9)) << "as many as a run may have";
}

TEST(Policies, NamesThatAreNotKnown_areRefused) { EXPECT_ANY_THROW(make_policy(options("best", 8))); }

/// A source that says the same of every position: 7 after the root (.8), or 9 (.1); after 7 8 (.5).
class Sayer final : public GuessSource {
 public:
  using GuessSource::GuessSource;
  std::string name() const override { return "sayer"; }
  void begin(std::uint64_t) override {}
  bool guess(TokenTree& tree, std::span<const std::int32_t>, const GuessDemand&) override {
    const NodeId seven = calibration_.add(tree, tree.root().id, 7, 0.8f);
    calibration_.add(tree, tree.root().id, 9, 0.1f);
    calibration_.add(tree, seven, 8, 0.5f);
    return true;
  }
};

TEST(GuessRecorder, Rates_areOfThePositionsThatGuessesReach) {
  Sayer sayer(0);
  GuessRecorder recorder(1, 3);
  recorder.begin(1);
  TokenTree tree(0, 0);
  for (const std::int32_t next : {7, 8, 9, 7, 7, 5}) {
    sayer.guess(tree, {}, {});
    recorder.learn(tree, next);
    tree.advance(next);
    tree.prune();
  }
  const std::vector<const GuessSource*> sources{&sayer};
  const auto rates = recorder.rates(sources);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].name, "sayer");
  EXPECT_EQ(rates[1].name, "all");
  for (const SourceRates& source : rates) {
    // One ahead: 7 at three of six positions, 9 at one. Two ahead: after the 7s came 8, 7 and 5.
    EXPECT_EQ(source.levels[0].reached, 6u);
    EXPECT_EQ(source.levels[0].guessed, 6u);
    EXPECT_EQ(source.levels[0].right[0], 3u);
    EXPECT_EQ(source.levels[0].right[1], 1u);
    EXPECT_EQ(source.levels[1].reached, 4u) << "9 was guessed, too";
    EXPECT_EQ(source.levels[1].guessed, 3u) << "and nothing after it";
    EXPECT_EQ(source.levels[1].right[0], 1u);
    EXPECT_EQ(source.levels[2].reached, 1u);
    EXPECT_EQ(source.levels[2].guessed, 0u);
    EXPECT_NEAR(source.levels[0].promised, 6 * 0.8, 1e-5);
    EXPECT_DOUBLE_EQ(source.accuracies()[0][0], 0.5);
    EXPECT_DOUBLE_EQ(source.accuracies()[1][0], 0.25);
    ASSERT_EQ(source.texts.size(), 1u);
    EXPECT_EQ(source.texts[0], (RankedText{{0, 0, -1}, {-1, -1, -1}, {1, -1, -1}, {0, -1, -1}, {0, -1, -1}, {-1, -1, -1}}));
    EXPECT_DOUBLE_EQ(source.levels[0].true_rate(), 0.5);
  }
}

}  // namespace
}  // namespace yamata
