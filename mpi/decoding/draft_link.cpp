#include "mpi/decoding/draft_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "node/error.hpp"

namespace yamata {

VocabularyMap VocabularyMap::between(const std::vector<std::string>& target, const std::vector<std::string>& draft) {
  VocabularyMap map;
  if (target == draft) return map;
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::size_t i = 0; i < target.size(); ++i) ids.emplace(target[i], static_cast<std::int32_t>(i));
  map.to_draft.assign(target.size(), 0);
  for (std::size_t i = 0; i < draft.size(); ++i) {
    const auto found = ids.find(draft[i]);
    if (found == ids.end()) {
      throw ModelError(
          fmt::format("the draft model has another vocabulary: its token {} '{}' is not among the target's; use a draft of the same family",
                      i, draft[i]));
    }
    map.to_target.push_back(found->second);
    map.to_draft[static_cast<std::size_t>(found->second)] = static_cast<std::int32_t>(i);
  }
  return map;
}

std::int32_t VocabularyMap::target(std::int32_t draft_token) const {
  return to_target.empty() ? draft_token : to_target.at(static_cast<std::size_t>(draft_token));
}

std::int32_t VocabularyMap::draft(std::int32_t target_token) const {
  return to_draft.empty() ? target_token : to_draft.at(static_cast<std::size_t>(target_token));
}

void DraftLink::begin(std::uint64_t request) {
  request_ = request;
  asked_epoch_ = complete_epoch_ = answered_epoch_ = 0;
  judged_epoch_ = 1;
  told_ = 0;
  places_.clear();
  text_nodes_.clear();
  tempo_.begin();
}

std::optional<wire::Commit> DraftLink::next_commit(std::uint64_t epoch, std::span<const std::int32_t> text, std::int32_t min_drafts,
                                                   float least, bool retell) {
  constexpr std::uint64_t kMostUnanswered = 16;
  if (!alive_ || told_ == text.size() || epoch > answered_epoch_ + kMostUnanswered) return std::nullopt;
  wire::Commit commit{.request = request_,
                      .epoch = epoch,
                      .position = static_cast<std::int32_t>(told_),
                      .tokens = {},
                      .min_drafts = min_drafts,
                      .least = least,
                      .retell = retell};
  asked_epoch_ = epoch;
  for (; told_ < text.size(); ++told_) commit.tokens.push_back(vocabulary_.draft(text[told_]));
  return commit;
}

bool DraftLink::take(const wire::Guesses& guesses, TokenTree& tree, std::span<const std::int32_t> text) {
  if (guesses.request != request_) return false;
  answered_epoch_ = std::max(answered_epoch_, guesses.epoch);
  if (guesses.evaluation_s > 0) evaluation_s_ = guesses.evaluation_s;
  if (guesses.complete) complete_epoch_ = std::max(complete_epoch_, guesses.epoch);
  // Everything below the drafter's root has a higher id.
  places_.erase(places_.begin(), places_.lower_bound(guesses.root));
  places_[guesses.root] = {kNoNode, guesses.root_position};
  const TreeNode& root = tree.root();
  bool grown = false;
  for (const wire::Guess& guess : guesses.guesses) {
    const auto parent = places_.find(guess.parent);
    if (parent == places_.end()) continue;
    const std::int32_t token = vocabulary_.target(guess.token);
    const Place& at = parent->second;
    NodeId below = kNoNode;
    if (at.node != kNoNode && at.node != root.id && tree.alive(at.node))
      below = at.node;
    else if (at.position == root.position && is_text(at, tree, text))
      below = root.id;
    if (below != kNoNode) {
      places_[guess.id] = {guesser_.guess(tree, below, token, guess.probability), at.position + 1};
      grown = true;
    } else if (at.position < root.position && is_text(at, tree, text) && text[static_cast<std::size_t>(at.position) + 1] == token) {
      places_[guess.id] = {kNoNode, at.position + 1};
    }
  }
  return grown;
}

/// Whether a place that is no living guess is part of the text, rather than gone.
bool DraftLink::is_text(const Place& place, const TokenTree& tree, std::span<const std::int32_t> text) const {
  if (place.position >= static_cast<std::int32_t>(text.size())) return false;
  return place.node == kNoNode || place.node == tree.root().id || text_nodes_.contains(place.node);
}

void DraftLink::learn(const TokenTree& tree, std::int32_t next) {
  const TreeNode& root = tree.root();
  text_nodes_[root.id] = root.position;
  if (text_nodes_.size() > 512) text_nodes_.erase(text_nodes_.begin());
  if (std::exchange(judged_epoch_, asked_epoch_) != asked_epoch_) {
    const NodeId child = tree.child(root.id, next);
    hits_.count(child != kNoNode && tree.at(child).sent && guesser_.guessed(tree, child) && tree.at(child).words.size() == 1);
  }
  guesser_.learn(tree, next);
}

}  // namespace yamata
