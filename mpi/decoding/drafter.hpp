#pragma once
// A drafter: follows the text and sends guesses without being asked for each (PipeInfer, "asynchronous speculation").
#include <memory>

#include "mpi/decoding/prefix_cache.hpp"
#include "mpi/decoding/tree_runs.hpp"
#include "src/speculation/best_choices.hpp"
#include "src/speculation/shaped_policies.hpp"
#include "src/speculation/source_calibration.hpp"

namespace yamata {

/// A state machine on the first rank of a draft model. It never blocks. It expands the most probable nodes of its own token tree; the
/// head's commits prune the tree.
class Drafter {
 public:
  /// `model`: its number in the plan. `kept`: sequences for texts that stay in the cache; empty: none stay.
  Drafter(Transport& transport, std::int32_t model, std::unique_ptr<Pipeline> pipeline, const DraftOptions& options, std::int32_t context,
          SequenceRange sequences, std::int32_t batch, SequenceRange kept = {0, 0});

  /// The text has grown, or the text of another request begins. Throws ClusterError if it does not continue the known text.
  void on_commit(const wire::Commit& commit);
  /// Does what is possible now; true if anything happened.
  bool advance();
  Pipeline& pipeline() { return *pipeline_; }
  /// Time in which it read logits and chose guesses.
  double candidates_s() const { return candidates_s_; }

 private:
  void begin(std::span<const std::int32_t> text);
  void keep_text();
  void commit(std::int32_t token);
  void resend();
  std::vector<BestChoice> choices_of(const RunResult& result, std::size_t i, std::size_t rows) const;
  void take(NodeId id, const std::vector<BestChoice>& choices);
  void expand(NodeId id, std::span<const BestChoice> choices);
  void expand_known();
  NodeId next_known();
  bool begin_next();
  void expand_all(const TreeRuns::Finished& finished);
  std::int32_t depth_of(const TreeNode& node);
  bool is_known(const TreeNode& node);
  bool is_followed(const TreeNode& node);
  bool passes_cut_off(const TreeNode& node) const;
  bool fills_tree() const;
  bool drafts_sequences() const;
  NodeId find_tip();
  std::vector<NodeId> sequence_ends();
  bool may_expand_no_more();
  std::size_t expansions_left();
  float least_worth();
  std::vector<NodeId> candidates(bool known);
  bool draft_is_complete();
  std::vector<NodeId> open_places();
  std::vector<NodeId> choose();
  RunCosts run_costs() const;
  double evaluation_s() const;
  bool idle();
  void push_guesses();

  Transport& transport_;
  const std::int32_t model_;
  std::unique_ptr<Pipeline> pipeline_;
  Batcher batcher_;  // for one text at a time
  const DraftOptions options_;
  const std::int32_t context_, batch_;
  const std::int32_t depths_;   // for heads whose guesses depend only on the depth: greatest depth; 0: guesses depend on their parent
  const std::size_t ranks_;     // guesses per node regardless of their probability: the most children in the shape, at least one
  const std::int32_t choices_;  // tokens that are requested after each node
  BestFirst search_;            // what to expand next
  StaticTreePolicy shape_;      // nodes to expand before those
  SourceCalibration calibration_{0};
  const std::int32_t text_sequence_;
  TreeRuns runs_;
  PrefixCache cache_;
  std::vector<wire::Guess> guesses_;
  std::uint64_t request_ = 0, epoch_ = 0;
  std::int32_t min_drafts_ = 0;  // guesses of this epoch for which the head waits
  NodeId tip_ = kNoNode;         // sequences begin below it
  float least_ = 0;              // least path probability that is worth an evaluation
  std::vector<std::vector<BestChoice>>
      levels_;                // for heads whose guesses depend only on the depth: the choices after a node of each depth, in this epoch
  NodeId deepest_ = kNoNode;  // the last node of these that was computed
  double choosing_s_ = 0;     // recent time to read the logits of an evaluation and choose guesses
  double candidates_s_ = 0;   // sum of these times
  bool complete_told_ = true, answered_ = true;
};

}  // namespace yamata
