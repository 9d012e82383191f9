#include "src/sampling/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "node/error.hpp"
#include "src/sampling/philox.hpp"

namespace yamata {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// By descending probability, ties by id.
bool before(const Candidate& a, const Candidate& b) {
  return a.probability > b.probability || (a.probability == b.probability && a.id < b.id);
}

/// The weight of a logit relative to the best one, whose weight is 1 even if both are infinite.
double weight(float logit, float best, float temperature) {
  return logit == best ? 1.0 : std::exp((static_cast<double>(logit) - best) / temperature);
}

[[noreturn]] void throw_unusable() {
  throw ModelError("the model gave no usable logits: every one is banned, minus infinity or no number; check the model file");
}

std::int32_t best_id(std::span<const float> logits) {
  std::int32_t best = -1;
  float highest = kNever;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > highest) {  // false for NaN
      highest = logits[i];
      best = static_cast<std::int32_t>(i);
    }
  }
  if (best < 0) throw_unusable();
  return best;
}

/// Keeps the top_k most probable, then those within top_p and min_p. `candidates` hold logits, which are sorted after the call.
void truncate(std::vector<Candidate>& candidates, const SamplingParams& params) {
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < candidates.size()) {
    std::partial_sort(candidates.begin(), candidates.begin() + params.top_k, candidates.end(), before);
    candidates.resize(static_cast<std::size_t>(params.top_k));
  } else {
    std::sort(candidates.begin(), candidates.end(), before);
  }
  const float best = candidates.front().probability;
  if (params.top_p < 1.0f) {
    double total = 0.0, reached = 0.0;
    for (const Candidate& candidate : candidates) total += weight(candidate.probability, best, 1.0f);
    std::size_t kept = 0;
    while (kept < candidates.size()) {
      reached += weight(candidates[kept++].probability, best, 1.0f);
      if (reached >= params.top_p * total) break;
    }
    candidates.resize(kept);
  }
  if (params.min_p > 0.0f) {
    std::size_t kept = 1;
    while (kept < candidates.size() && weight(candidates[kept].probability, best, 1.0f) >= params.min_p) ++kept;
    candidates.resize(kept);
  }
}

}  // namespace

double uniform(std::uint64_t seed, std::uint64_t position) {
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); };
  const auto words = philox4x32({low(position), high(position), 0, 0}, {low(seed), high(seed)});
  const std::uint64_t bits = std::uint64_t{words[1]} << 32 | words[0];
  return static_cast<double>(bits >> 11) * 0x1.0p-53;  // a double has 53 bits
}

std::size_t logits_read(const SamplingParams& params, std::size_t banned, std::size_t answer) {
  constexpr std::size_t kMostAnswer = 2048;  // a longer list costs as much as all logits
  const bool greedy = params.temperature <= 0;
  // Any token may become the best if some are made more probable.
  if (params.presence_penalty < 0 || params.frequency_penalty < 0) return 0;
  if (std::ranges::any_of(params.bias, [](const LogitBias& bias) { return bias.bias > 0; })) return 0;
  const bool counts = params.presence_penalty > 0 || params.frequency_penalty > 0;
  if (counts && answer > kMostAnswer) return 0;
  // a penalty below 1 may make any token the best; without top_k all tokens count
  if (params.repeat_penalty < 1 || (!greedy && params.top_k <= 0)) return 0;
  const bool penalizes = params.repeat_penalty > 1 && params.repeat_last_n > 0;
  // Each penalized or banned token may be replaced by one more.
  return static_cast<std::size_t>(greedy ? 1 : params.top_k) + banned + (penalizes ? static_cast<std::size_t>(params.repeat_last_n) : 0) +
         params.bias.size() + (counts ? answer : 0);
}

/// Presence and frequency penalties, as in OpenAI's interface.
void Sampler::penalize_answer(std::span<float> logits, std::span<const std::int32_t> history) {
  if (params_.presence_penalty == 0 && params_.frequency_penalty == 0) return;
  for (; counted_ < history.size(); ++counted_) ++counts_[history[counted_]];
  for (const auto& [id, count] : counts_) {
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) continue;
    logits[static_cast<std::size_t>(id)] -= params_.presence_penalty + static_cast<float>(count) * params_.frequency_penalty;
  }
}

void Sampler::penalize(std::span<float> logits, std::span<const std::int32_t> history) {
  const auto inside = [&](std::int32_t id) { return id >= 0 && static_cast<std::size_t>(id) < logits.size(); };
  for (const LogitBias& bias : params_.bias) {
    if (inside(bias.token)) logits[static_cast<std::size_t>(bias.token)] += bias.bias;
  }
  if (params_.repeat_penalty != 1.0f && params_.repeat_last_n > 0) {
    const std::size_t count = std::min(history.size(), static_cast<std::size_t>(params_.repeat_last_n));
    std::unordered_set<std::int32_t> seen;
    for (const std::int32_t id : history.last(count)) {
      if (!inside(id) || !seen.insert(id).second) continue;
      float& logit = logits[static_cast<std::size_t>(id)];
      logit = logit > 0.0f ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
    }
  }
  penalize_answer(logits, history);
  for (const std::int32_t id : banned_) {
    if (inside(id)) logits[static_cast<std::size_t>(id)] = kNever;
  }
}

const std::vector<Candidate>& Sampler::distribution(std::span<float> logits, std::span<const std::int32_t> history) {
  penalize(logits, history);
  candidates_.clear();
  if (params_.temperature <= 0.0f) {
    candidates_.push_back({best_id(logits), 1.0f});
    return candidates_;
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > kNever) candidates_.push_back({static_cast<std::int32_t>(i), logits[i]});
  }
  if (candidates_.empty()) throw_unusable();
  truncate(candidates_, params_);
  const float best = candidates_.front().probability;
  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += weight(candidate.probability, best, params_.temperature);
  for (Candidate& candidate : candidates_) {
    candidate.probability = static_cast<float>(weight(candidate.probability, best, params_.temperature) / total);
  }
  return candidates_;
}

std::int32_t Sampler::sample(std::span<float> logits, std::span<const std::int32_t> history, std::int64_t position) {
  const std::vector<Candidate>& candidates = distribution(logits, history);
  double total = 0.0;  // not exactly 1, because the probabilities are rounded
  for (const Candidate& candidate : candidates) total += candidate.probability;
  const double draw = uniform(params_.seed, static_cast<std::uint64_t>(position)) * total;
  double reached = 0.0;
  for (const Candidate& candidate : candidates) {
    reached += candidate.probability;
    if (draw < reached) return candidate.id;
  }
  return candidates.front().id;
}

}  // namespace yamata
