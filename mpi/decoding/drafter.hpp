#pragma once
// A drafter: follows the text and pushes guesses ahead, as far as its credit reaches (PipeInfer, "asynchronous speculation").
#include <memory>

#include "mpi/decoding/tree_runs.hpp"
#include "src/speculation/best_choices.hpp"
#include "src/speculation/shaped_policies.hpp"
#include "src/speculation/source_calibration.hpp"

namespace yamata {

/// A state machine on the first rank of a draft model. Nobody waits for it, and it waits for nobody: it expands the most
/// probable nodes of a token tree of its own, which the head prunes by saying how the text went on.
class Drafter {
 public:
  /// `model`: its number in the plan.
  Drafter(Transport& transport, std::int32_t model, std::unique_ptr<Pipeline> pipeline, const DraftOptions& options, std::int32_t context,
          SequenceRange sequences, std::int32_t batch);

  /// The text goes on, or another request's begins. Throws ClusterError where it does not follow what was told before.
  void on_commit(const wire::Commit& commit);
  /// Does what can be done now; true if anything happened.
  bool advance();
  Pipeline& pipeline() { return *pipeline_; }

 private:
  void commit(std::int32_t token);
  void retell();
  void take(NodeId id, std::span<const float> logits);
  void expand(NodeId id, std::span<const BestChoice> choices);
  void expand_known();
  NodeId next_known();
  bool begin_next();
  void expand_all(const TreeRuns::Finished& finished);
  std::int32_t depth_of(const TreeNode& node);
  bool is_known(const TreeNode& node);
  bool is_followed(const TreeNode& node);
  bool fills_tree() const;
  bool spent();
  std::size_t room_left();
  float least_worth();
  std::vector<NodeId> candidates(bool known);
  bool gave_enough();
  std::vector<NodeId> open_places();
  std::vector<NodeId> choose();
  RunCosts run_costs() const;
  double evaluation_s() const;
  bool idle();
  void push_guesses();

  Transport& transport_;
  const std::int32_t model_;
  std::unique_ptr<Pipeline> pipeline_;
  const DraftOptions options_;
  const std::int32_t context_, batch_;
  const std::int32_t depths_;  // of heads that guess by depth; 0: what follows a guess depends on it
  const std::size_t ranks_;    // guesses that a node is given whatever they promise: as many as the shape has below any, one at least
  BestFirst search_;           // what to expand next
  StaticTreePolicy shape_;     // what to expand before that
  SourceCalibration calibration_{0};
  TreeRuns runs_;
  std::vector<wire::Guess> guesses_;
  std::uint64_t request_ = 0, epoch_ = 0;
  std::int32_t min_drafts_ = 0;                  // guesses of this epoch that somebody waits for
  float least_ = 0;                              // path probability worth an evaluation
  std::vector<std::vector<BestChoice>> levels_;  // heads that guess by depth: what follows a node, by its depth, in this epoch
  NodeId deepest_ = kNoNode;                     // that was computed for the last of these
  double choosing_s_ = 0;                        // what reading the logits of an evaluation took of late
  bool complete_told_ = true, answered_ = true;
};

}  // namespace yamata
