#pragma once
// The policies of the papers that take a tree of a given size below the tip, whatever its rows cost: Medusa's and DuoDecoding's.
#include <vector>

#include "src/speculation/draft_options.hpp"
#include "src/speculation/policy.hpp"

namespace yamata {

/// Medusa's and ARCA's static tree: the guess of each rank that the shape has, of whatever probability.
class StaticTreePolicy final : public Policy {
 public:
  /// `options.tree`: the shape; without it static_tree(options.draft) is taken.
  explicit StaticTreePolicy(const PolicyOptions& options);
  StaticTreePolicy(const StaticTree& shape, std::size_t most);
  std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) override;
  bool fills_tip_run() const override { return true; }
  bool minds_costs() const override { return false; }

 private:
  struct Child {
    std::size_t rank, node;
  };
  std::vector<std::vector<Child>> below_;  // of each node of the shape, by rank
  std::size_t most_;                       // guesses of a run
};

/// Medusa's dynamic tree (Algorithm 1): of the guesses at most K deep, m below each, the n most probable; of equals the shallower, then
/// the older, so that no guess goes without its parent.
class DynamicTreePolicy final : public Policy {
 public:
  /// K, m, n: `options.depth`, `children`, `draft`.
  explicit DynamicTreePolicy(const PolicyOptions& options) : options_(options) {}
  std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) override;
  bool fills_tip_run() const override { return true; }
  bool minds_costs() const override { return false; }

 private:
  PolicyOptions options_;
};

/// DuoDecoding's several sequences: one per first token that is likelier than the best two tokens together, each gone on with greedily. The
/// budget is what is drafted in the time of a run, and shared out equally.
class MultiSequence final : public Policy {
 public:
  explicit MultiSequence(const PolicyOptions& options) : options_(options) {}
  std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) override;
  bool fills_tip_run() const override { return true; }

  /// The number with many divisors that is nearest to `drafted` from below, at most `most`; of 0 to `most`.
  static std::size_t budget(double drafted, std::size_t most);
  /// How many sequences: 1 and one for each further first token above the probability of the best two tokens, at most 8; the largest
  /// divisor of `budget` up to that.
  static std::size_t sequences(const TokenTree& tree, const std::vector<NodeId>& firsts, std::size_t budget);

 private:
  PolicyOptions options_;
};

/// How drafters search for a policy: for static-tree so that nothing of its shape is missing; for dynamic-tree nothing below its depth, as
/// many guesses after one token as it takes, and room for the whole tree.
DraftOptions draft_options(const PolicyOptions& policy);

/// A tree of `guesses` guesses from accuracies as they are usual: of first choices .64, .49, .43 and .35 by depth (Medusa's heads on the
/// demonstration model), each further choice a third of the one before.
StaticTree static_tree(int guesses);

}  // namespace yamata
