#pragma once
// A text and its tree of guesses on one pipeline: what is computed, what is in flight, what is no longer needed.
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mpi/pipeline/batcher.hpp"
#include "node/clock.hpp"
#include "src/speculation/partitions.hpp"
#include "src/speculation/token_tree.hpp"

namespace yamata {

/// The beginning of a text that is in the cache already, computed for another one.
struct CachedBeginning {
  std::int32_t sequence = 0;  ///< that holds it
  std::int32_t tokens = 0;    ///< 0: nothing
};

/// One text at a time. The owner commits tokens; any source adds guesses to tree(). This class decides nothing: the decoder and the drafter
/// choose what runs next, and this class keeps tree, cache and runs consistent.
class TreeRuns {
 public:
  struct Run {
    std::uint64_t id = 0;
    std::vector<NodeId> nodes;  ///< one per row of logits, in the order of the rows; empty: text whose logits are not needed
    std::int32_t text_begin = 0, text_rows = 0;  ///< positions of the text before the root that come first
    std::int32_t text_end = 0;                   ///< of the text when it was sent
    std::int32_t rows = 0;                       ///< as in RunResult, when its result has arrived
    bool has_root = false;                       ///< begins with the last token of the text, without text rows before it
    bool speculative = false;                    ///< contains guesses
    bool cancelled = false;
    bool unhindered = false;               ///< when it was sent, no other run was in flight
    bool pinned = false;                   ///< computes a token that has become text, so its cells are needed
    Clock::time_point sent, cancelled_at;  ///< cancelled_at: only if it is cancelled
  };
  struct Finished {
    Run run;
    RunResult result;
  };

  /// What is requested from every run.
  struct Wants {
    std::int32_t best = 0;                     ///< see wire::Record
    bool sums = false;                         ///< see wire::Record
    std::vector<std::int32_t> feature_layers;  ///< layers whose features are requested, for all rows
    std::int64_t features_read = 0;            ///< see StageModel; if not 0, guesses that become text are computed again as text
    CancelRoute cancel_route = CancelRoute::kDirect;
  };

  /// `sequences` of the pipeline's cache: the first holds the text, each other may hold a path of guesses. The batcher outlives this.
  TreeRuns(Batcher& batcher, SequenceRange sequences, Wants wants)
      : lane_(batcher), sequences_(sequences), partitions_(sequences), wants_(std::move(wants)) {}

  /// Begins a text of at least one token, of which nothing is computed yet; its last token is the tree's root. The earlier text is over:
  /// its runs are cancelled, and the sequences are emptied before the first token is placed. `cached`: less than the text. `grammar`: which
  /// tokens may follow, from `state` on; nullptr: any. It outlives the text.
  void begin(std::span<const std::int32_t> text, CachedBeginning cached = {}, TokenGrammar* grammar = nullptr, std::uint32_t state = 0);
  /// Sends the cache operations that are due, rather than with the next run.
  void send_operations();
  bool begun() const { return tree_.has_value(); }
  const std::vector<std::int32_t>& text() const { return text_; }
  TokenTree& tree() { return *tree_; }
  const TokenTree& tree() const { return *tree_; }
  const Partitions& partitions() const { return partitions_; }

  /// For heads: the features of the tokens that precede the next tokens of the text, from its second token on.
  void add_features(std::span<const float> features) { features_.insert(features_.end(), features.begin(), features.end()); }
  /// Commits `token`: the root moves to it, and nodes that are not below it are removed. For heads, the guesses below it are removed, too,
  /// because they were computed from the heads' own hidden states, unless `keeps_guesses`: then they can be continued, and the text is
  /// computed again when the tree is lost.
  void commit(std::int32_t token, bool keeps_guesses = false);
  /// Removes all guesses, in flight or not.
  void prune();

  /// Tokens of the text without a cell, the root included.
  std::size_t unsent_text() const { return text_.size() - text_sent_; }
  /// Tokens of the text that were sent as guesses, and that the states of layers with states do not contain for certain when the next run
  /// begins.
  std::int32_t not_in_states() const;
  /// Sends up to `most` further tokens of the text before the root, without requesting logits.
  void submit_text(std::size_t most);
  /// Sends the rest of the text and the root, and requests the root's logits.
  void submit_root();
  /// Computes the last token as a part of the text, so that each stage has the state after it. Of a text that has ended.
  void submit_end();
  /// Sends the root or guesses in the order of Partitions::lay_out, and requests all their logits. Returns the run, or nullptr if no node
  /// got a cell.
  const Run* submit(std::span<const NodeId> nodes);

  /// The next result that has arrived, with its run. For results of an earlier text, the run has no nodes.
  std::optional<Finished> take_result();
  std::size_t in_flight() const { return runs_.size(); }
  /// The runs in flight, in the order in which they were sent.
  const std::deque<Run>& runs() const { return runs_; }
  /// The number of runs in flight that are still needed.
  std::size_t live() const;
  /// Whether guesses are in flight that are still needed.
  bool speculating() const;
  /// Marks the runs in flight without a living node as cancelled; with `tell`, the stages skip them. No living row reads their cells: the
  /// ancestors of a living guess are alive too, or are text, whose runs are pinned. Returns the number of runs that the stages were asked
  /// to skip.
  std::size_t cancel_dead(bool tell = true);
  /// The text has ended: with `tell`, all its runs are cancelled; the cache keeps the text.
  void finish(bool tell = true);

 private:
  std::size_t cancel(const std::vector<Run*>& runs, bool tell);
  void cancel_rest(bool tell);
  std::int32_t text_end() const;
  Run add_text(wire::Record& record, std::size_t end);
  void bring_features(wire::Record& record);
  std::int32_t likely_row(const Run& run) const;
  const Run* send(wire::Record record, Run run);

  PipelineLane lane_;
  const SequenceRange sequences_;
  Partitions partitions_;
  const Wants wants_;
  std::vector<std::int32_t> text_;
  std::size_t text_sent_ = 0;   // of the text before the root
  std::int32_t in_states_ = 0;  // tokens of the text that are in every stage's states when it begins the next run
  std::deque<float> features_;  // of text that has not been sent
  std::optional<TokenTree> tree_;
  std::deque<Run> runs_;
};

}  // namespace yamata
