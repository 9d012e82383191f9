#pragma once
// One text on a drafter: its tree of guesses, and what the draft model evaluates next.
#include <optional>
#include <span>
#include <vector>

#include "mpi/decoding/tree_runs.hpp"
#include "mpi/protocol/wire.hpp"
#include "src/speculation/best_choices.hpp"
#include "src/speculation/shaped_policies.hpp"
#include "src/speculation/source_calibration.hpp"

namespace yamata {

/// What the texts of a drafter have in common.
struct Drafting {
  DraftOptions options;
  std::int32_t model = 1;    ///< its number in the plan
  std::int32_t context = 0;  ///< number of positions
  std::int32_t batch = 64;   ///< most rows of a prompt's part
};

/// Expands the most probable nodes of its own token tree; the head's commits prune the tree. One text after another; its calibration is
/// kept.
class DraftedText {
 public:
  /// `sequences`: of the pipeline's cache: the first holds the text, each other may hold a path of guesses. `batcher` and `drafting`
  /// outlive this.
  DraftedText(Batcher& batcher, const Drafting& drafting, SequenceRange sequences);

  /// The text of a request begins with the tokens of this commit.
  void begin(const wire::Commit& commit, CachedBeginning cached);
  /// The text has grown.
  void grow(const wire::Commit& commit);
  /// The text is over.
  void end();
  /// Whether there is a text.
  bool begun() const { return begun_; }
  std::uint64_t request() const { return request_; }
  const std::vector<std::int32_t>& text() const { return runs_.text(); }
  /// How many tokens of the text all stages have computed.
  std::size_t computed() const;
  SequenceRange sequences() const { return sequences_; }
  void send_operations() { runs_.send_operations(); }

  /// Takes the results that have arrived; true if there were any.
  bool receive();
  /// What is to be told to the head now. `rows`: of an evaluation of all texts.
  std::optional<wire::Guesses> answer(int rows);
  /// How many rows the next evaluation has at least.
  std::int32_t least_rows() const;
  /// Whether there are too few cells for that. Then nothing is sent, and no guesses are to be expected.
  void lack_cells(bool lacks) { lacks_cells_ = lacks; }
  bool lacks_cells() const { return lacks_cells_; }
  /// Begins an evaluation of at least that and at most `most` rows, `nodes` of them if they are guesses. `others`: rows of other texts in
  /// the same run. False if nothing is left to compute.
  bool send_next(std::int32_t most, std::int32_t nodes, std::int32_t others);
  std::size_t in_flight() const { return runs_.in_flight(); }
  /// Sum of the times in which it read logits and chose guesses.
  double candidates_s() const { return candidates_s_; }

 private:
  Pipeline& pipeline() const { return batcher_.pipeline(); }
  const DraftOptions& options() const { return drafting_.options; }
  void take_demand(const wire::Commit& commit);
  void begin_epoch(const wire::Commit& commit);
  void commit(std::int32_t token);
  void resend();
  std::vector<BestChoice> choices_of(const RunResult& result, std::size_t i, std::size_t rows) const;
  void take(NodeId id, const std::vector<BestChoice>& choices);
  void expand(NodeId id, std::span<const BestChoice> choices);
  void expand_known();
  NodeId next_known();
  void expand_all(const TreeRuns::Finished& finished);
  std::int32_t depth_of(const TreeNode& node) const;
  bool is_known(const TreeNode& node) const;
  bool is_followed(const TreeNode& node) const;
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
  std::vector<NodeId> choose(std::size_t most, int others);
  RunCosts run_costs(int others) const;
  bool idle();

  Batcher& batcher_;
  const Drafting& drafting_;
  const std::int32_t depths_;   // for heads whose guesses depend only on the depth: greatest depth; 0: guesses depend on their parent
  const std::size_t ranks_;     // guesses per node regardless of their probability: the most children in the shape, at least one
  const std::int32_t choices_;  // tokens that are requested after each node
  BestFirst search_;            // what to expand next
  StaticTreePolicy shape_;      // nodes to expand before those
  SourceCalibration calibration_{0};
  const SequenceRange sequences_;
  TreeRuns runs_;
  std::vector<wire::Guess> guesses_;
  bool begun_ = false;
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
  bool lacks_cells_ = false;
};

}  // namespace yamata
