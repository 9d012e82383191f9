#pragma once
// A draft model on another rank, or on rank 0, as a guess source: the head's end of the link.
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/decoding/vocabulary_map.hpp"
#include "mpi/protocol/wire.hpp"
#include "mpi/transport/transport.hpp"
#include "src/speculation/draft_balance.hpp"
#include "src/speculation/draft_decision.hpp"
#include "src/speculation/draft_latency.hpp"
#include "src/speculation/guess_source.hpp"
#include "src/speculation/step_cost.hpp"

namespace yamata {

/// Where a draft model or heads are.
struct DraftPlace {
  int rank = 0;                                ///< the first rank of the drafter
  int model = 1;                               ///< its number in the plan
  std::string name = "draft model";            ///< shown to users
  std::vector<std::int32_t> feature_layers{};  ///< for heads: the target's layers that they read
  bool one_text = false;                       ///< it guesses for one text at a time
  bool own_unit = false;  ///< it has a compute unit other than that of the rank's target layers, so both compute at the same time
};

/// Sends the drafter the committed text, in its own vocabulary; its guesses arrive at any time (on_guesses).
class DraftLink final : public GuessSource {
 public:
  /// `relative_cost`: estimated cost of one evaluation of the draft, relative to one of the whole target.
  DraftLink(Transport& transport, int index, DraftPlace place, VocabularyMap vocabulary, double relative_cost)
      : GuessSource(index),
        transport_(transport),
        place_(std::move(place)),
        vocabulary_(std::move(vocabulary)),
        relative_cost_(relative_cost) {}

  int rank() const { return place_.rank; }
  /// The draft's number in the plan.
  int model() const { return place_.model; }
  bool alive() const { return alive_; }
  /// The drafter is lost: nothing more is sent to it, and its messages are ignored.
  void drop() { alive_ = false; }
  /// Bytes of the target's hidden states sent to another rank for the current text.
  std::uint64_t feature_bytes() const { return feature_bytes_; }
  /// The time that its steps have saved, if the root waits for it.
  const DraftBalance& balance() const { return balance_; }
  /// What its steps saved in earlier jobs.
  void begin_with(const DraftSums& experience) { balance_.begin_with(experience); }

  std::string name() const override { return place_.name; }
  void begin(std::uint64_t request) override;
  /// Sends the drafter the text. A draft that would delay the text by more than it may save gets it later, or never.
  bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) override;
  void learn(const TokenTree& tree, std::int32_t next) override;
  /// Tells the drafter that the text is over, if it knows it.
  void end() override;
  void step_ended(const TextStep& step) override;
  std::optional<GuessLatency> next_guess() override;
  std::optional<double> guess_s() const override { return alive_ ? std::optional(evaluation_s_) : std::nullopt; }
  bool pending() const override { return alive_ && asked() && !complete(); }
  bool shares_unit() const override { return alive_ && place_.rank == transport_.rank() && !place_.own_unit; }
  std::vector<std::int32_t> feature_layers() const override { return place_.feature_layers; }
  void take_features(std::int32_t position, std::span<const float> row) override;

  /// Handles arrived guesses. Guesses below removed nodes, and those of an earlier text, are dropped. True if the tree has grown.
  bool on_guesses(const wire::Guesses& guesses, TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand);
  /// Acceptance rate of its requested drafts: how often one had the text's next token, which was sent, and which no other source had
  /// guessed.
  double expected_acceptance() const { return acceptance_.expected(); }
  /// Seconds of one evaluation of its draft: measured, or estimated from `token_s`, the time of a token of the target.
  double evaluation_s(double token_s) const { return evaluation_s_ > 0 ? evaluation_s_ : relative_cost_ * token_s; }

 private:
  /// The counterpart of one of the drafter's nodes on the head.
  struct Place {
    NodeId node = kNoNode;       // in the tree, if known
    std::int32_t position = -1;  // of the token in the text, or of the node
  };
  /// It has the current text, so it will send something.
  bool asked() const { return asked_epoch_ == epoch_; }
  /// It has sent everything that it was asked for.
  bool complete() const { return complete_epoch_ == epoch_; }
  bool can_tell(std::span<const std::int32_t> text) const;
  std::optional<float> least_expanded(std::span<const std::int32_t> text, const GuessDemand& demand);
  void tell(std::span<const std::int32_t> text, const GuessDemand& demand, float least);
  bool take(const wire::Guesses& guesses, TokenTree& tree, std::span<const std::int32_t> text);
  bool is_text(const Place& place, const TokenTree& tree, std::span<const std::int32_t> text) const;

  Transport& transport_;
  DraftLatency latency_;
  const DraftPlace place_;
  VocabularyMap vocabulary_;
  bool alive_ = true;
  std::uint64_t request_ = 0;
  std::uint64_t first_epoch_ = 0;  // the first epoch in which the current text could be sent to it
  std::uint64_t epoch_ = 0, asked_epoch_ = 0, complete_epoch_ = 0;
  std::deque<std::uint64_t> unanswered_;  // epochs of unanswered commits
  std::uint64_t judged_epoch_ = 1;        // of the latest draft that was judged; not 0, since the one after the prompt comes too late
  Share acceptance_;
  double open_ = 1;       // as in GuessDemand, when it was asked
  int own_ = 0;           // tokens of this step that only it had guessed
  std::size_t rows_ = 0;  // its guesses in the runs of this step, without those that other sources had, too
  double relative_cost_, evaluation_s_ = 0;
  DraftBalance balance_;
  bool catches_up_ = false;  // it was sent more than the last step's tokens
  ProbeBudget probes_;
  std::size_t told_ = 0;         // tokens of text that were sent
  std::vector<float> features_;  // of the tokens before those that have not been sent
  std::size_t featured_ = 0;     // tokens of text whose features have arrived
  std::uint64_t feature_bytes_ = 0;
  std::map<std::uint32_t, Place> places_;
  std::map<NodeId, std::int32_t> text_nodes_;  // recent roots: the tree's id -> position
};

}  // namespace yamata
