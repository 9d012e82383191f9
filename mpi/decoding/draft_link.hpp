#pragma once
// The head's end of the line to one drafter: its ids, its vocabulary, what its word is worth.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "src/speculation/draft_value.hpp"
#include "src/speculation/guesser.hpp"
#include "src/speculation/tempo.hpp"
#include "src/speculation/token_tree.hpp"

namespace yamata {

/// Ids of one vocabulary as those of another; empty tables: they are the same.
struct VocabularyMap {
  std::vector<std::int32_t> to_target, to_draft;

  /// Maps by the tokens' texts. Throws ModelError naming the first token of the draft that the target lacks.
  static VocabularyMap between(const std::vector<std::string>& target, const std::vector<std::string>& draft);
  std::int32_t target(std::int32_t draft_token) const;
  std::int32_t draft(std::int32_t target_token) const;
};

class DraftLink {
 public:
  /// `relative_cost`: of one evaluation of the draft, in those of the whole target, as far as can be told beforehand.
  DraftLink(int index, int rank, VocabularyMap vocabulary, double relative_cost)
      : guesser_(index), rank_(rank), vocabulary_(std::move(vocabulary)), relative_cost_(relative_cost) {}

  /// A new text begins, with no token of it told. What has been learnt of the drafter stays.
  void begin(std::uint64_t request);
  int rank() const { return rank_; }
  bool alive() const { return alive_; }
  void drop() { alive_ = false; }
  /// The message that tells this drafter of the text it has not been told of, or nothing where there is none or where it has not
  /// answered for long: what is sent to a rank that does not take it fills the transport's buffers for all.
  std::optional<wire::Commit> next_commit(std::uint64_t epoch, std::span<const std::int32_t> text, std::int32_t min_drafts, float least,
                                          bool retell);

  /// Puts guesses into the tree; those below what is gone meanwhile are dropped, as are those of a text before. `text`: all committed
  /// tokens. True if the tree has grown.
  bool take(const wire::Guesses& guesses, TokenTree& tree, std::span<const std::int32_t> text);
  /// `next` was committed after the tree's root; to be called before tree.advance.
  void learn(const TokenTree& tree, std::int32_t next);
  /// It has told everything it was asked for in this epoch.
  bool complete(std::uint64_t epoch) const { return complete_epoch_ == epoch; }
  /// It has been told of this epoch's text, and so will say something.
  bool asked(std::uint64_t epoch) const { return asked_epoch_ == epoch; }
  /// Tokens of `text` that it has not been told of.
  std::size_t behind(std::span<const std::int32_t> text) const { return text.size() - told_; }
  /// What one evaluation of its draft takes, where a token of the target takes `token_s`; as measured, once it is.
  double evaluation_s(double token_s) const { return evaluation_s_ > 0 ? evaluation_s_ : relative_cost_ * token_s; }
  double relative_cost() const { return relative_cost_; }
  /// How often a draft it was asked for had the text's next token, sent and guessed by nobody else.
  double expected_hit_rate() const { return hits_.expected(); }
  DraftBalance& balance() { return balance_; }
  ProbeBudget& probes() { return probes_; }
  const Guesser& guesser() const { return guesser_; }
  DraftTempo& tempo() { return tempo_; }

 private:
  /// Where one of the drafter's nodes stands with us.
  struct Place {
    NodeId node = kNoNode;       // in the tree, as far as we know
    std::int32_t position = -1;  // of the text, where it has become that; or of the node
  };
  bool is_text(const Place& place, const TokenTree& tree, std::span<const std::int32_t> text) const;

  Guesser guesser_;
  DraftTempo tempo_;
  int rank_;
  VocabularyMap vocabulary_;
  bool alive_ = true;
  std::uint64_t request_ = 0;
  std::uint64_t asked_epoch_ = 0, complete_epoch_ = 0, answered_epoch_ = 0;
  std::uint64_t judged_epoch_ = 1;  // the guesses after the prompt come too late for it
  Share hits_;
  double relative_cost_, evaluation_s_ = 0;
  DraftBalance balance_;
  ProbeBudget probes_;
  std::size_t told_ = 0;  // tokens of text
  std::map<std::uint32_t, Place> places_;
  std::map<NodeId, std::int32_t> text_nodes_;  // roots of late, by the tree's id -> position
};

}  // namespace yamata
