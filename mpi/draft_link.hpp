#pragma once
// The head's end of the line to one drafter: its ids, its vocabulary, what its word is worth.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/wire.hpp"
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
  DraftLink(int index, int rank, VocabularyMap vocabulary) : guesser_(index), rank_(rank), vocabulary_(std::move(vocabulary)) {}

  int rank() const { return rank_; }
  bool alive() const { return alive_; }
  void drop() { alive_ = false; }
  /// The message that tells this drafter of the text it has not been told of, or nothing where there is none or where it has not
  /// answered for long: what is sent to a rank that does not take it fills the transport's buffers for all.
  std::optional<wire::Commit> next_commit(std::uint64_t epoch, std::span<const std::int32_t> text, std::int32_t wanted, bool retell);

  /// Puts guesses into the tree; those below what is gone meanwhile are dropped. `text`: all committed tokens. True if the tree
  /// has grown.
  bool take(const wire::Guesses& guesses, TokenTree& tree, std::span<const std::int32_t> text);
  /// `next` was committed after the tree's root; to be called before tree.advance.
  void learn(const TokenTree& tree, std::int32_t next);
  /// It has told everything it was asked for in this epoch.
  bool complete(std::uint64_t epoch) const { return complete_epoch_ == epoch; }
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
  std::uint64_t complete_epoch_ = 0, answered_epoch_ = 0;
  std::size_t told_ = 0;  // tokens of text
  std::map<std::uint32_t, Place> places_;
  std::map<NodeId, std::int32_t> text_nodes_;  // roots of late, by the tree's id -> position
};

}  // namespace yamata
