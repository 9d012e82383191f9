#include "mpi/decoding/draft_link.hpp"

#include <algorithm>
#include <utility>

#include "mpi/protocol/validate.hpp"

namespace yamata {
namespace {

/// Limit of commits without an answer. Messages to a rank that does not receive them fill the transport's buffers for all ranks: 16 commits
/// are about two kilobytes. Values from 2 to 64 make no difference in the sweep of docs/speculation.md, even with links of 25 ms.
constexpr std::size_t kMaxUnanswered = 16;
/// Number of earlier roots that are remembered, so that guesses below tokens that have become text meanwhile are understood: as many as
/// there can be in kMaxUnanswered commits of 32 tokens each.
constexpr std::size_t kRememberedRoots = 32 * kMaxUnanswered;

}  // namespace

void DraftLink::begin(std::uint64_t request) {
  request_ = request;
  epoch_ = first_epoch_ = asked_epoch_ = complete_epoch_ = 0;
  unanswered_.clear();
  judged_epoch_ = 1;
  open_ = 1;
  own_ = 0;
  rows_ = 0;
  catches_up_ = false;
  told_ = featured_ = 0;
  feature_bytes_ = 0;
  features_.clear();
  places_.clear();
  text_nodes_.clear();
  balance_.begin();
  latency_.begin();
}

void DraftLink::end() {
  if (alive_ && told_ > 0) {
    wire::Commit over{
        .request = request_, .epoch = epoch_, .position = static_cast<std::int32_t>(told_), .model = place_.model, .ended = true};
    transport_.send(place_.rank, Tag::kCommit, wire::encode(over));
  }
  told_ = 0;
}

bool DraftLink::guess(TokenTree& /*tree*/, std::span<const std::int32_t> text, const GuessDemand& demand) {
  epoch_ = demand.epoch;
  if (demand.suspended) balance_.step_of_another();
  if (demand.suspended || !can_tell(text)) return false;
  if (first_epoch_ == 0) first_epoch_ = epoch_;
  const auto least = demand.until_complete && !demand.at_any_cost ? least_expanded(text, demand) : 0.0f;
  if (least)
    tell(text, demand, *least);
  else
    balance_.step_not_asked();
  return false;
}

/// For a draft for which the root waits until it is complete: the least path probability of nodes to expand; nothing: do not ask the
/// drafter.
std::optional<float> DraftLink::least_expanded(std::span<const std::int32_t> text, const GuessDemand& demand) {
  const double evaluation_s = this->evaluation_s(demand.token_s);
  // Heads get the prompt when it has been computed: then a token without guesses is measured first.
  DraftCase draft{.after_prompt = epoch_ == first_epoch_ && place_.feature_layers.empty(),
                  .shares_unit = shares_unit(),
                  .relative_cost = relative_cost_,
                  .rate = {.acceptance = acceptance_.expected(), .open = demand.open},
                  .times = {.first_s = evaluation_s,
                            .next_s = evaluation_s,
                            .row_s = demand.row_s,
                            .token_s = demand.token_s,
                            .alone_s = demand.alone_s},
                  .costs_more = balance_.costs_more(),
                  .most = demand.most};
  if (place_.rank != transport_.rank()) draft.times.first_s = std::max(evaluation_s, latency_.answer_s());
  const DraftDecision decision = decide_draft(draft);
  if (decision.kind == DraftDecision::Kind::kLeave) return std::nullopt;
  const double catching_up = StepCost::prior(static_cast<int>(text.size() - told_));
  if (decision.kind == DraftDecision::Kind::kProbe && !probes_.spend(draft.times.first_s * catching_up)) return std::nullopt;
  return decision.least;
}

void DraftLink::take_features(std::int32_t position, std::span<const float> row) {
  if (!alive_) return;
  features_.insert(features_.end(), row.begin(), row.end());
  featured_ = static_cast<std::size_t>(position) + 1;
}

/// Heads are sent the prompt after it has been computed.
bool DraftLink::can_tell(std::span<const std::int32_t> text) const {
  return place_.feature_layers.empty() || (featured_ > 0 && featured_ + 1 == text.size());
}

/// Sends the new text to the drafter, unless there is none or too many commits are unanswered.
void DraftLink::tell(std::span<const std::int32_t> text, const GuessDemand& demand, float least) {
  if (!alive_ || told_ == text.size() || !can_tell(text) || unanswered_.size() >= kMaxUnanswered) return;
  wire::Commit commit{.request = request_,
                      .epoch = epoch_,
                      .position = static_cast<std::int32_t>(told_),
                      .tokens = {},
                      .min_drafts = demand.min_drafts,
                      .min_path_probability = least,
                      .resend = demand.resend,
                      .model = place_.model,
                      .features = std::move(features_)};
  features_.clear();
  asked_epoch_ = epoch_;
  open_ = demand.open;
  unanswered_.push_back(epoch_);
  catches_up_ = told_ == 0 || text.size() - told_ > StepCost::kOfAText;
  if (place_.rank != transport_.rank()) feature_bytes_ += commit.features.size() * sizeof(float);
  for (; told_ < text.size(); ++told_) commit.tokens.push_back(vocabulary_.draft(text[told_]));
  transport_.send(place_.rank, Tag::kCommit, wire::encode(commit));
}

bool DraftLink::on_guesses(const wire::Guesses& guesses, TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) {
  if (guesses.request != request_) return false;
  const bool grown = alive_ && take(guesses, tree, text);
  if (grown) latency_.guesses_came();
  if (!demand.until_complete && !demand.suspended) tell(text, demand, 0);
  return grown;
}

void DraftLink::step_ended(const TextStep& step) {
  if (!step.first && step.alone_s > 0 && asked() && !catches_up_) {
    const int others = step.rows - static_cast<int>(rows_);  // without its guesses
    const double without_s = std::max(step.alone_s, others > 1 && step.run_s ? step.run_s->run_s(others) : 0);
    balance_.step({.tokens = step.tokens,
                   .own = own_,
                   .seconds = step.seconds,
                   .cost_s = std::max(0.0, step.seconds - without_s),
                   .token_s = step.alone_s});
  }
  own_ = 0;
  latency_.text_came();
}

std::optional<GuessLatency> DraftLink::next_guess() {
  if (!alive_ || complete() || latency_.wait_s() <= 0 || latency_.overdue()) return std::nullopt;
  return GuessLatency{latency_.wait_s(), latency_.next_s()};
}

/// Adds guesses to the tree; those below removed nodes are dropped.
bool DraftLink::take(const wire::Guesses& guesses, TokenTree& tree, std::span<const std::int32_t> text) {
  wire::validate(guesses, {.epoch = epoch_, .text_tokens = text.size(), .vocabulary = vocabulary_.draft_tokens}, place_.rank);
  while (!unanswered_.empty() && unanswered_.front() <= guesses.epoch) unanswered_.pop_front();
  if (guesses.evaluation_s > 0) evaluation_s_ = guesses.evaluation_s;
  if (guesses.complete) complete_epoch_ = std::max(complete_epoch_, guesses.epoch);
  // All nodes below the drafter's root have higher ids.
  places_.erase(places_.begin(), places_.lower_bound(guesses.root));
  places_[guesses.root] = {kNoNode, guesses.root_position};
  const TreeNode& root = tree.root();
  bool grown = false;
  for (const wire::Guess& guess : guesses.guesses) {
    const auto parent = places_.find(guess.parent);
    if (parent == places_.end()) continue;
    const std::int32_t token = vocabulary_.target(guess.token);
    if (token < 0) continue;  // nor those below it, whose parent has no place
    const Place& at = parent->second;
    NodeId below = kNoNode;
    if (at.node != kNoNode && at.node != root.id && tree.alive(at.node))
      below = at.node;
    else if (at.position == root.position && is_text(at, tree, text))
      below = root.id;
    if (below != kNoNode) {
      places_[guess.id] = {calibration_.add(tree, below, token, guess.probability), at.position + 1};
      grown = true;
    } else if (at.position < root.position && is_text(at, tree, text) && text[static_cast<std::size_t>(at.position) + 1] == token) {
      places_[guess.id] = {kNoNode, at.position + 1};
    }
  }
  return grown;
}

/// Whether a place without a living guess is part of the text, rather than removed.
bool DraftLink::is_text(const Place& place, const TokenTree& tree, std::span<const std::int32_t> text) const {
  if (place.position >= static_cast<std::int32_t>(text.size())) return false;
  return place.node == kNoNode || place.node == tree.root().id || text_nodes_.contains(place.node);
}

void DraftLink::learn(const TokenTree& tree, std::int32_t next) {
  const TreeNode& root = tree.root();
  text_nodes_[root.id] = root.position;
  if (text_nodes_.size() > kRememberedRoots) text_nodes_.erase(text_nodes_.begin());
  const auto only_its = [&](NodeId id) {
    return id != root.id && tree.at(id).sent && calibration_.guessed(tree, id) && tree.at(id).draft_probabilities.size() == 1;
  };
  const NodeId child = tree.child(root.id, next);
  const bool right = child != kNoNode && only_its(child);
  own_ += right;
  if (asked_epoch_ > judged_epoch_) {
    judged_epoch_ = asked_epoch_;
    acceptance_.count(open_, right);
    rows_ = static_cast<std::size_t>(std::ranges::count_if(tree.ids(), only_its));
  }
  GuessSource::learn(tree, next);
}

}  // namespace yamata
