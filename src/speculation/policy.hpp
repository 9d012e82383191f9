#pragma once
// Which guesses go into the next run.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/speculation/token_tree.hpp"
#include "src/speculation/tree_builder.hpp"

namespace yamata {

struct PolicyOptions {
  std::string name = "best-first";
  int draft = 8;                     ///< --draft: most tokens of a run
  float threshold = 0.02f;           ///< best-first: least path probability worth a row, however cheap
  float accept = 0.5f;               ///< -pa, chain: least probability to continue a branch
  float split = 0.1f;                ///< -ps, chain: least probability to open another branch
  float recovery = 0.0f;             ///< -pr, chain: added to both for every run since the text last grew
  float decay = 0.0f;                ///< -pd, chain: subtracted from both for every attempt without a guess since then
  int branches = 1;                  ///< -np, chain: most branches
  bool at_any_cost = false;          ///< chain: only the cut-offs decide what is drafted, not its time
  std::optional<StaticTree> tree{};  ///< --tree, static-tree: the shape; nothing: that of static_tree
  int sequences = 0;                 ///< --sequences, multi-sequence: always so many; 0: by their probabilities
  int budget = 0;                    ///< --budget, multi-sequence: guesses of all sequences; 0: as many as are drafted during a run
  int depth = 4;                     ///< --tree-depth, K: dynamic-tree
  int children = 32;                 ///< --tree-children, m: dynamic-tree
};

/// The cost of the next run's guesses, as the expected number of accepted guesses that is needed to make up for it. Entry [k] is for k
/// guesses; entries never fall. Empty: no cost.
struct RunCosts {
  std::vector<double> occupancy;  ///< stages and links are busy
  std::vector<double> lateness;   ///< its own results are delayed; multiplied by the path probability of its best guess
};

/// Chooses unsent nodes, parents before children, each below a sent or chosen node or the root.
class Policy {
 public:
  virtual ~Policy() = default;
  /// Chooses at most `capacity` nodes. The caller sends the root, so it counts as sent.
  virtual std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) = 0;
  /// Whether guesses also go into the run of the root; otherwise they follow it, as in PipeInfer.
  virtual bool fills_root_run() const { return false; }
  /// Whether it takes only as many guesses as are worth their cost; otherwise it takes a tree of a given size, which sources fill at any
  /// cost.
  virtual bool considers_costs() const { return true; }
  /// Whether target and sources work in steps of one run, and wait for each other after each (multi-sequence).
  virtual bool goes_in_steps() const { return false; }
  /// A step begins. `drafted`: the number of guesses that a source makes in the time of a one-row run; 0: not limited.
  virtual void plan_step(double /*drafted*/) {}
  /// With steps: how many guesses are made in this one; else 0.
  virtual std::size_t budget() const { return 0; }
  /// With steps: how many sequences begin below `tip`; 0: none.
  virtual std::size_t sequences(const TokenTree& /*tree*/, NodeId /*tip*/) const { return 0; }
  /// Whether the last choice may have more guesses when more are drafted, and should wait for them.
  virtual bool is_unfinished() const { return false; }
  /// A run of the nodes chosen last was submitted.
  virtual void submitted() {}
  /// A token was committed; `guessed`: it was in the tree and sent.
  virtual void committed(bool /*guessed*/) {}
};

/// The most probable unsent nodes of the whole tree, any branch, any depth, as many as are worth their time (beyond the papers:
/// best-first continuous speculation). Path probability never rises along a path, so the best nodes are closed under ancestors.
class BestFirst final : public Policy {
 public:
  explicit BestFirst(const PolicyOptions& options) : options_(options) {}
  std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) override;
  /// The same among these nodes only, without a threshold.
  std::vector<NodeId> choose_among(const TokenTree& tree, std::vector<NodeId> candidates, std::size_t capacity,
                                   const RunCosts& costs) const;
  bool fills_root_run() const override { return true; }

 private:
  PolicyOptions options_;
};

/// PipeInfer's chains (its algorithm of continuous speculation with reactive cut-offs): extends the draft's first choices by up to `draft`
/// tokens while each is probable enough, and opens branches beside them where the runners-up are. Probabilities are the draft's own. A
/// choice without any guess is a failed attempt, which lowers the cut-off by the decay.
class Chain final : public Policy {
 public:
  explicit Chain(const PolicyOptions& options) : options_(options) {}
  std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) override;
  bool considers_costs() const override { return !options_.at_any_cost; }
  /// The batch is neither full nor ended by the cut-off.
  bool is_unfinished() const override { return unfinished_; }
  void submitted() override { ++runs_; }
  void committed(bool guessed) override;

 private:
  /// The end of the chain: down the first choices as far as they have been sent.
  static NodeId tip(const TokenTree& tree);
  void take_level(const TokenTree& tree, std::vector<NodeId>& ends, std::size_t most, std::vector<NodeId>& chosen);
  double adjustment() const { return runs_ * static_cast<double>(options_.recovery) - rejects_ * static_cast<double>(options_.decay); }

  PolicyOptions options_;
  int runs_ = 0, rejects_ = 0;  // runs with guesses and attempts without any, since the text last grew
  bool unfinished_ = false;
};

/// Sends no guess, and lets the root wait for every source; used to record guesses.
class Watch final : public Policy {
 public:
  std::vector<NodeId> choose(const TokenTree&, std::size_t, const RunCosts&) override { return {}; }
};

/// Orders by probability, descending; then by depth, then by age.
bool goes_before(const TreeNode& a, const TreeNode& b);
/// Children by probability, best first.
std::vector<NodeId> ranked_children(const TokenTree& tree, NodeId id);
/// Children by draft probability, best first: the source's own order. The head and the drafter must agree on it, or the drafter expands
/// other nodes than the head takes. They calibrate separately, and calibration may change the order.
std::vector<NodeId> drafted_order(const TokenTree& tree, NodeId id);
/// The highest draft probability of a node's sources, before calibration.
float own_probability(const TreeNode& node);

}  // namespace yamata
