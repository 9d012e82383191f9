#include "src/simulation/synthetic_text.hpp"

#include <algorithm>
#include <cmath>

#include "src/simulation/table_model.hpp"

namespace yamata::simulation {
namespace {

constexpr std::uint64_t kToken = 1, kEasy = 2, kRank = 3, kOrder = 4, kPrompt = 5;  // what a draw is for

}  // namespace

/// Hard positions have half the mean rate, easy ones a sixth of the mean's misses; their shares make the mean come out.
SyntheticText::SyntheticText(const TextOptions& options) : options_(options) {
  const double top1 = std::clamp(options.top1, 0.0, 1.0);
  const double rest = top1 < 1 ? std::clamp((options.top4 - top1) / (1 - top1), 0.0, 1.0) : 0;
  const double easy = 1 - (1 - top1) / 6, hard = top1 / 2;
  easy_share_ = (top1 - hard) / (easy - hard);
  easy_ = make_kind(easy, rest);
  hard_ = make_kind(hard, rest);
}

/// Of the misses of the first choice, the second to fourth take `among_next_three`, each half of the one before.
SyntheticText::Kind SyntheticText::make_kind(double top1, double among_next_three) const {
  std::array<double, kVocabulary> p;
  const double next = (1 - top1) * among_next_three;
  p.fill((1 - top1 - next) / (kVocabulary - 4));
  p[0] = top1;
  for (std::size_t i = 1; i < 4; ++i) p[i] = next * static_cast<double>(4 >> (i - 1)) / 7;
  Kind kind;
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    kind.at_most[i] = sum += p[i];
    kind.logits[i] = static_cast<float>((1 + options_.over_confidence) * std::log(std::max(p[i], 1e-12)));
  }
  return kind;
}

std::int32_t SyntheticText::next(std::uint64_t prefix) const {
  return static_cast<std::int32_t>(mix(mix(prefix, options_.seed), kToken) % kVocabulary);
}

void SyntheticText::target_logits(std::uint64_t prefix, std::span<float> logits) const {
  std::fill(logits.begin(), logits.end(), 0.0f);
  logits[static_cast<std::size_t>(next(prefix))] = 1;
}

const SyntheticText::Kind& SyntheticText::kind(std::uint64_t drafter, std::uint64_t prefix) const {
  return share(mix(mix(prefix, options_.seed + drafter), kEasy)) < easy_share_ ? easy_ : hard_;
}

std::int32_t SyntheticText::rank(std::uint64_t drafter, std::uint64_t prefix) const {
  const auto& at_most = kind(drafter, prefix).at_most;
  const double draw = share(mix(mix(prefix, options_.seed + drafter), kRank));
  const auto found = std::upper_bound(at_most.begin(), at_most.end() - 1, draw);
  return static_cast<std::int32_t>(found - at_most.begin());
}

void SyntheticText::draft_logits(std::uint64_t drafter, std::uint64_t prefix, std::span<float> logits) const {
  const Kind& stated = kind(drafter, prefix);
  const std::int32_t truth = next(prefix), at = rank(drafter, prefix);
  // The others follow from a token of their own on, in a circle that leaves the truth out.
  const auto order = mix(mix(prefix, options_.seed + drafter), kOrder) % (kVocabulary - 1);
  for (std::int32_t r = 0; r < kVocabulary; ++r) {
    const auto other = (static_cast<std::uint64_t>(r - (r > at)) + order) % (kVocabulary - 1);
    const auto token = r == at ? truth : static_cast<std::int32_t>((static_cast<std::uint64_t>(truth) + 1 + other) % kVocabulary);
    logits[static_cast<std::size_t>(token)] = stated.logits[static_cast<std::size_t>(r)];
  }
}

std::vector<std::int32_t> SyntheticText::prompt(std::int32_t tokens) const {
  std::vector<std::int32_t> text;
  for (std::int32_t i = 0; i < tokens; ++i)
    text.push_back(static_cast<std::int32_t>(mix(mix(options_.seed, kPrompt), static_cast<std::uint64_t>(i)) % kVocabulary));
  return text;
}

std::vector<std::int32_t> SyntheticText::continuation(std::vector<std::int32_t> text, std::int32_t tokens) const {
  std::uint64_t prefix = prefix_hash(text);
  std::vector<std::int32_t> after;
  for (std::int32_t i = 0; i < tokens; ++i) {
    after.push_back(next(prefix));
    prefix = mix(prefix, token_hash(after.back(), static_cast<std::int32_t>(text.size()) + i));
  }
  return after;
}

}  // namespace yamata::simulation
