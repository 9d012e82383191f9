#include "src/simulation/recorded_text.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "src/simulation/table_model.hpp"

namespace yamata::simulation {
namespace {

constexpr std::int32_t kOtherTokens = 256;   // tokens that are not in the recording: so many that none of them is worth a guess
constexpr std::uint64_t kDrafterOfText = 0;  // the drafter whose choices are recorded

TextOptions with_vocabulary(TextOptions options, const Recording& recording) {
  std::set<std::int32_t> tokens(recording.prompt.begin(), recording.prompt.end());
  tokens.insert(recording.tokens.begin(), recording.tokens.end());
  options.vocabulary = static_cast<std::int32_t>(tokens.size()) + kOtherTokens;
  return options;
}

}  // namespace

RecordedText::RecordedText(Recording recording, TextOptions options)
    : SyntheticText(with_vocabulary(options, recording)), recording_(std::move(recording)) {
  std::unordered_map<std::int32_t, std::int32_t> numbers;
  std::uint64_t prefix = prefix_hash({});
  std::int32_t position = 0;
  const auto append = [&](std::int32_t& token) {
    token = numbers.emplace(token, static_cast<std::int32_t>(numbers.size())).first->second;
    prefix = mix(prefix, token_hash(token, position++));
  };
  for (std::int32_t& token : recording_.prompt) append(token);
  for (std::size_t i = 0; i < recording_.tokens.size(); ++i) {
    next_[prefix] = i;
    append(recording_.tokens[i]);
  }
  for (std::size_t i = 0; i < recording_.choices.size(); ++i) {
    if (!recording_.choices[i].draft_probabilities.empty()) told_.push_back(i);
  }
}

std::int32_t RecordedText::next(std::uint64_t prefix) const {
  const auto place = next_.find(prefix);
  return place == next_.end() ? SyntheticText::next(prefix) : recording_.tokens[place->second];
}

/// The choices at this position if they are recorded for this drafter; else those of a random position.
const Recording::Choices& RecordedText::choices(std::uint64_t drafter, std::uint64_t prefix) const {
  const auto place = next_.find(prefix);
  if (drafter == kDrafterOfText && place != next_.end() && !recording_.choices[place->second].draft_probabilities.empty())
    return recording_.choices[place->second];
  return recording_.choices[told_[draw(drafter, prefix, Draw::kPlace) % told_.size()]];
}

/// Tokens that the drafter did not propose are less probable than those that it did, and decrease with their rank, so that ties never
/// favour the true token.
void RecordedText::draft_logits(std::uint64_t drafter, std::uint64_t prefix, std::span<float> logits) const {
  if (told_.empty()) return SyntheticText::draft_logits(drafter, prefix, logits);
  const auto& [draft_probabilities, accepted] = choices(drafter, prefix);
  const auto size = static_cast<double>(logits.size());
  const double rest = 1 - std::accumulate(draft_probabilities.begin(), draft_probabilities.end(), 0.0);
  const double each = std::clamp(rest / size, 1e-9, std::max(1e-9, 0.99 * static_cast<double>(draft_probabilities.back())));
  std::vector<float> by_rank;
  for (const float p : draft_probabilities) by_rank.push_back(std::log(std::max(p, 1e-8f)));
  while (by_rank.size() < logits.size())
    by_rank.push_back(static_cast<float>(std::log(each * (1 - 0.1 * static_cast<double>(by_rank.size()) / size))));
  spread(drafter, prefix, accepted.value_or(by_rank.size() - 1), by_rank, logits);
}

std::vector<std::int32_t> RecordedText::prompt(std::int32_t tokens, std::uint64_t number) const {
  return number == 0 ? recording_.prompt : SyntheticText::prompt(tokens, number);
}

}  // namespace yamata::simulation
