#pragma once
// The policies of the papers that take a tree of a given size below the root, whatever its rows cost: Medusa's and DuoDecoding's.
#include <vector>

#include "src/speculation/draft_options.hpp"
#include "src/speculation/policy.hpp"

namespace yamata {

/// Medusa's and ARCA's static tree: the guesses with the ranks of the shape, whatever their probability. The ranks are the source's own, by
/// draft probability.
class StaticTreePolicy final : public Policy {
 public:
  /// `options.tree`: the shape; without it static_tree(options.draft) is taken.
  explicit StaticTreePolicy(const PolicyOptions& options);
  StaticTreePolicy(const StaticTree& shape, std::size_t most);
  std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) override;
  bool fills_root_run() const override { return true; }
  bool considers_costs() const override { return false; }

 private:
  struct Child {
    std::size_t rank, node;
  };
  std::vector<std::vector<Child>> below_;  // of each node of the shape, by rank
  std::size_t most_;                       // guesses of a run
};

/// Medusa's dynamic tree (Algorithm 1): the n most probable guesses at most K deep, with at most m below each node; among equals the
/// shallower, then the older, so that no guess goes without its parent.
class DynamicTreePolicy final : public Policy {
 public:
  /// K, m, n: `options.depth`, `children`, `draft`.
  explicit DynamicTreePolicy(const PolicyOptions& options) : options_(options) {}
  std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) override;
  bool fills_root_run() const override { return true; }
  bool considers_costs() const override { return false; }

 private:
  PolicyOptions options_;
};

/// DuoDecoding's sequences: one per first token that is more probable than the best two-token sequence, or `options.sequences`, each
/// continued greedily. The budget is the number of guesses drafted in the time of a run, or `options.budget`; the sequences share it
/// equally. If sources draft during a run, the run's result chooses one of them, and the next run verifies this one; else the next run
/// verifies all. All by the draft's own probabilities.
class MultiSequence final : public Policy {
 public:
  explicit MultiSequence(const PolicyOptions& options) : options_(options) { MultiSequence::plan_step(0); }
  std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) override;
  bool fills_root_run() const override { return true; }
  bool considers_costs() const override { return false; }
  bool goes_in_steps() const override { return true; }
  void plan_step(double drafted) override;
  std::size_t budget() const override { return budget_; }
  std::size_t sequences(const TokenTree& tree, NodeId tip) const override;

  static constexpr int kMaxSequences = 8;
  /// The largest number with many divisors that is at most `drafted` and at most `most`; at least 1.
  static std::size_t budget(double drafted, std::size_t most);
  /// The number of sequences that begin with `firsts`, the most probable one first. `fixed`: this number, but at most one for each first
  /// token and guess of the budget. 0: one, plus one for each further first token above the probability of the best two-token sequence, at
  /// most kMaxSequences; then rounded down to a divisor of `budget`.
  static std::size_t sequence_count(const TokenTree& tree, const std::vector<NodeId>& firsts, std::size_t budget, int fixed);

 private:
  PolicyOptions options_;
  std::size_t budget_ = 0;
};

/// The drafters' search options for a policy. chain: a greedy chain. static-tree: the whole shape is drafted. dynamic-tree: nothing below
/// its depth, as many guesses after one token as it takes, and space for the whole tree. multi-sequence: space for the guesses of two
/// steps.
DraftOptions draft_options(const PolicyOptions& policy);

/// A tree of `guesses` guesses from typical accuracies: first choices .64, .49, .43 and .35 by depth (Medusa heads on the demonstration
/// model), each further choice a third of the previous one.
StaticTree static_tree(int guesses);

}  // namespace yamata
