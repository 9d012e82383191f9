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
  float accept = 0.5f;               ///< -pa: chain: least probability that continues a branch
  float split = 0.1f;                ///< -ps: chain: least probability that opens another branch
  float recovery = 0.0f;             ///< -pr: chain: added to both per run since the last acceptance
  float decay = 0.0f;                ///< -pd: chain: taken off both per time nothing could be drafted
  int branches = 1;                  ///< -np: chain: branches at most
  std::optional<StaticTree> tree{};  ///< --tree: static-tree: which guesses, by their ranks; nothing: as static_tree has them
  int depth = 4;                     ///< --tree-depth, K: dynamic-tree
  int children = 32;                 ///< --tree-children, m: dynamic-tree
};

/// What the guesses of the next run cost, in guesses that must be accepted, in the mean, to pay for that. Each [k] is for k guesses and
/// never falls; empty: they cost nothing.
struct RunCosts {
  std::vector<double> occupancy;  ///< stages and links are taken
  std::vector<double> lateness;   ///< its own results come later: per path probability of its best guess
  double drafted = 0;             ///< guesses that are made in the time of a run of one row; 0: no matter how many
};

/// Chooses unsent nodes, parents before children, each below a sent or chosen node or the root.
class Policy {
 public:
  virtual ~Policy() = default;
  /// At most `capacity` nodes. The root itself is the caller's business: it counts as sent.
  virtual std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) = 0;
  /// Guesses go in the run of the tip too, where there are any; otherwise behind it, as PipeInfer's do.
  virtual bool fills_tip_run() const { return false; }
  /// Takes as many guesses as pay; otherwise a tree of a given size, which sources fill whatever that costs.
  virtual bool minds_costs() const { return true; }
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
  /// The same of these nodes alone, whatever they promise.
  std::vector<NodeId> choose_among(const TokenTree& tree, std::vector<NodeId> candidates, std::size_t capacity,
                                   const RunCosts& costs) const;
  bool fills_tip_run() const override { return true; }

 private:
  PolicyOptions options_;
};

/// PipeInfer's chains (its algorithm of continuous speculation with reactive cut-offs): extends the most probable path by up to
/// `draft` tokens while each is probable enough, and opens branches beside it where the runners-up are.
class Chain final : public Policy {
 public:
  explicit Chain(const PolicyOptions& options) : options_(options) {}
  std::vector<NodeId> choose(const TokenTree& tree, std::size_t capacity, const RunCosts& costs) override;
  void submitted() override { ++runs_; }
  void committed(bool guessed) override;

 private:
  PolicyOptions options_;
  int runs_ = 0, rejects_ = 0;
};

/// Sends nothing, and with the tip waits for every source: to see what would have been guessed.
class Watch final : public Policy {
 public:
  std::vector<NodeId> choose(const TokenTree&, std::size_t, const RunCosts&) override { return {}; }
};

/// More probable first; then the shallower, then the older.
bool goes_before(const TreeNode& a, const TreeNode& b);
/// Children by probability, best first.
std::vector<NodeId> ranked_children(const TokenTree& tree, NodeId id);

/// By the name in `options`. Throws UsageError where it is not known.
std::unique_ptr<Policy> make_policy(const PolicyOptions& options);

}  // namespace yamata
