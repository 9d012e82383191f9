#pragma once
// A text and its tree of guesses on one pipeline: what is computed, what is in flight, what nobody needs any more.
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mpi/pipeline/pipeline.hpp"
#include "node/clock.hpp"
#include "src/speculation/partitions.hpp"
#include "src/speculation/token_tree.hpp"

namespace yamata {

/// One text at a time: its tokens are committed by whoever owns this, its guesses are added to tree() by anybody. Decides nothing:
/// the decoder and the drafter say what runs next, this keeps tree, cache and runs in step.
class TreeRuns {
 public:
  struct Run {
    std::uint64_t id = 0;
    std::vector<NodeId> nodes;                   ///< one per row of logits, in the order of the rows; empty: text whose logits nobody needs
    std::int32_t text_begin = 0, text_rows = 0;  ///< positions of the text before the root that come first
    bool tip = false;                            ///< begins with the last token of the text, without text before it
    bool speculative = false;                    ///< holds guesses
    bool cancelled = false;
    bool pinned = false;                   ///< computes a token that has become text: its cells are needed
    Clock::time_point sent, cancelled_at;  ///< the latter where it is cancelled
  };
  struct Finished {
    Run run;
    RunResult result;
  };

  /// What is asked for of every run.
  struct Wants {
    std::int32_t best = 0;                     ///< see wire::Record
    std::vector<std::int32_t> feature_layers;  ///< at which features of all rows are asked for
    std::int64_t features_read = 0;            ///< as StageModel says; then guesses that become text are computed again, as text
  };

  /// `sequences` of the pipeline's cache: the first holds the text, each further one may hold a path of guesses. The pipeline outlives
  /// this.
  TreeRuns(Pipeline& pipeline, SequenceRange sequences, Wants wants)
      : pipeline_(pipeline), sequences_(sequences), partitions_(sequences), wants_(std::move(wants)) {}

  /// Begins a text of at least one token; its last is the tree's root. Nothing of it is computed yet. The text before is over: its runs
  /// are cancelled, and whatever the sequences held is gone before the first token is placed.
  void begin(std::span<const std::int32_t> text);
  bool begun() const { return tree_.has_value(); }
  const std::vector<std::int32_t>& text() const { return text_; }
  TokenTree& tree() { return *tree_; }
  const TokenTree& tree() const { return *tree_; }
  const Partitions& partitions() const { return partitions_; }

  /// For heads: the features of the tokens before those of the text that come next, from its second token on.
  void add_features(std::span<const float> features) { features_.insert(features_.end(), features.begin(), features.end()); }
  /// The text goes on with `token`: the tree advances, what is not below it goes.
  void commit(std::int32_t token);
  /// Forgets all guesses, in flight or not.
  void prune();

  /// Tokens of the text without a cell, the root included.
  std::size_t unsent_text() const { return text_.size() - text_sent_; }
  /// Sends the next `most` tokens of the text before the root, or as many as there are; nobody asks for their logits.
  void submit_text(std::size_t most);
  /// Sends all text that is left and the root, whose logits are asked for.
  void submit_root();
  /// Sends the root or guesses, all of whose logits are asked for, as Partitions::lay_out takes them. The run, or nullptr where no node
  /// found a place.
  const Run* submit(std::span<const NodeId> nodes);

  /// The next result that has come, with its run. Results of an earlier text's runs have a run without nodes.
  std::optional<Finished> take_result();
  std::size_t in_flight() const { return runs_.size(); }
  /// Those in flight, in the order in which they were sent.
  const std::deque<Run>& runs() const { return runs_; }
  /// Runs in flight that somebody needs.
  std::size_t live() const;
  /// Whether guesses are in flight that somebody needs.
  bool speculating() const;
  /// Marks the runs in flight with no living node as cancelled, and with `tell` lets the stages skip them. Nobody reads their cells: the
  /// ancestors of a living guess are alive themselves, or text, whose runs are pinned. Returns how many the stages were told of.
  std::size_t cancel_dead(bool tell = true);
  /// The text has ended: with `tell` all its runs are cancelled, and the cache is left as the text has it.
  void finish(bool tell = true);

 private:
  std::size_t cancel(const std::vector<Run*>& runs, bool tell);
  void cancel_rest(bool tell);
  Run add_text(wire::Record& record, std::size_t end);
  void bring_features(wire::Record& record);
  const Run* send(wire::Record record, Run run);

  Pipeline& pipeline_;
  const SequenceRange sequences_;
  Partitions partitions_;
  const Wants wants_;
  std::vector<std::int32_t> text_;
  std::size_t text_sent_ = 0;   // of the text before the root
  std::deque<float> features_;  // of the text that has not been sent
  std::optional<TokenTree> tree_;
  std::deque<Run> runs_;
};

}  // namespace yamata
