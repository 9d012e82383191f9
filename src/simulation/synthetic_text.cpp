#include "src/simulation/synthetic_text.hpp"

#include <algorithm>
#include <cmath>

#include "src/simulation/table_model.hpp"

namespace yamata::simulation {

/// Hard positions have half the mean acceptance rate, easy ones a sixth of the mean rejection rate; the shares of both give the mean.
SyntheticText::SyntheticText(const TextOptions& options) : options_(options) {
  const double top1 = std::clamp(options.top1, 0.0, 1.0);
  const double rest = top1 < 1 ? std::clamp((options.top4 - top1) / (1 - top1), 0.0, 1.0) : 0;
  const double easy = 1 - (1 - top1) / 6, hard = top1 / 2;
  easy_share_ = (top1 - hard) / (easy - hard);
  easy_ = make_kind(easy, rest);
  hard_ = make_kind(hard, rest);
}

/// When the first choice is wrong, the second to fourth have probability `among_next_three` together, each half of the one before.
SyntheticText::Kind SyntheticText::make_kind(double top1, double among_next_three) const {
  const double next = (1 - top1) * among_next_three;
  std::vector<double> p(static_cast<std::size_t>(options_.vocabulary), (1 - top1 - next) / (options_.vocabulary - 4));
  p[0] = top1;
  for (std::size_t i = 1; i < 4; ++i) p[i] = next * static_cast<double>(4 >> (i - 1)) / 7;
  Kind kind;
  double sum = 0;
  for (const double each : p) {
    kind.at_most.push_back(sum += each);
    kind.logits.push_back(static_cast<float>((1 + options_.over_confidence) * std::log(std::max(each, 1e-12))));
  }
  return kind;
}

double SyntheticText::mean_first_probability() const {
  const auto first = [](const Kind& kind) {
    double sum = 0;
    for (const float logit : kind.logits) sum += std::exp(static_cast<double>(logit));
    return std::exp(static_cast<double>(kind.logits.front())) / sum;
  };
  return easy_share_ * first(easy_) + (1 - easy_share_) * first(hard_);
}

double over_confidence_of(TextOptions options, double mean_first_probability) {
  constexpr double kMinOverConfidence = -0.95, kMaxOverConfidence = 4;
  constexpr double kStep = 0.125;
  constexpr int kHalvings = 40;
  const auto mean = [&](double over_confidence) {
    options.over_confidence = over_confidence;
    return SyntheticText(options).mean_first_probability();
  };
  // The mean rises with the parameter up to 0 and somewhat beyond. For a draft that is seldom right it then falls: its second choices are
  // often the more certain ones.
  const bool unsure = mean_first_probability <= mean(0);
  double below = unsure ? kMinOverConfidence : 0, above = 0;
  while (!unsure && above < kMaxOverConfidence && mean(above) < mean_first_probability && mean(above + kStep) > mean(above)) {
    below = above;
    above += kStep;
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (below + above) / 2;
    (mean(middle) < mean_first_probability ? below : above) = middle;
  }
  return (below + above) / 2;
}

std::uint64_t SyntheticText::draw(std::uint64_t drafter, std::uint64_t prefix, Draw purpose) const {
  return mix(mix(prefix, options_.seed + drafter), static_cast<std::uint64_t>(purpose));
}

std::int32_t SyntheticText::next(std::uint64_t prefix) const {
  return static_cast<std::int32_t>(draw(0, prefix, Draw::kToken) % static_cast<std::uint64_t>(options_.vocabulary));
}

void SyntheticText::target_logits(std::uint64_t prefix, std::span<float> logits) const {
  std::fill(logits.begin(), logits.end(), 0.0f);
  logits[static_cast<std::size_t>(next(prefix))] = 1;
}

void SyntheticText::draft_logits(std::uint64_t drafter, std::uint64_t prefix, std::span<float> logits) const {
  const Kind& kind = share(draw(drafter, prefix, Draw::kEasy)) < easy_share_ ? easy_ : hard_;
  const auto found = std::upper_bound(kind.at_most.begin(), kind.at_most.end() - 1, share(draw(drafter, prefix, Draw::kRank)));
  spread(drafter, prefix, static_cast<std::size_t>(found - kind.at_most.begin()), kind.logits, logits);
}

/// The other tokens follow in a circle from a random token on, which leaves out the next token.
void SyntheticText::spread(std::uint64_t drafter, std::uint64_t prefix, std::size_t truth, std::span<const float> by_rank,
                           std::span<float> logits) const {
  const auto size = static_cast<std::size_t>(options_.vocabulary), token = static_cast<std::size_t>(next(prefix));
  const std::size_t order = draw(drafter, prefix, Draw::kOrder) % (size - 1);
  for (std::size_t r = 0; r < size; ++r) {
    const std::size_t other = (r - (r > truth) + order) % (size - 1);
    logits[r == truth ? token : (token + 1 + other) % size] = by_rank[r];
  }
}

std::vector<std::int32_t> SyntheticText::prompt(std::int32_t tokens, std::uint64_t number) const {
  std::vector<std::int32_t> text;
  const std::uint64_t start = draw(0, number, Draw::kPrompt);
  for (std::int32_t i = 0; i < tokens; ++i)
    text.push_back(static_cast<std::int32_t>(mix(start, static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(options_.vocabulary)));
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
