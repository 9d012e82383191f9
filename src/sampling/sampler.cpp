#include "src/sampling/sampler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "node/error.hpp"

namespace yamata {
namespace {

/// Philox4x32-10 (Salmon et al., SC 2011).
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0], b = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1],
         static_cast<std::uint32_t>(a)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool better(const Candidate& a, const Candidate& b) { return a.probability > b.probability || (a.probability == b.probability && a.id < b.id); }

}  // namespace

double uniform(std::uint64_t seed, std::uint64_t position) {
  const auto word = [](std::uint64_t v, int shift) { return static_cast<std::uint32_t>(v >> shift); };
  const auto out = philox({word(position, 0), word(position, 32), 0, 0}, {word(seed, 0), word(seed, 32)});
  const std::uint64_t bits = (std::uint64_t{out[0]} << 32 | out[1]) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

void Sampler::penalize(std::span<float> logits, std::span<const std::int32_t> history) const {
  for (const std::int32_t id : banned_) logits[static_cast<std::size_t>(id)] = kNever;
  if (params_.repeat_penalty == 1.0f || params_.repeat_last_n == 0) return;
  const std::size_t n = std::min(history.size(), static_cast<std::size_t>(params_.repeat_last_n));
  std::vector<std::int32_t> recent(history.end() - static_cast<std::ptrdiff_t>(n), history.end());
  std::sort(recent.begin(), recent.end());
  recent.erase(std::unique(recent.begin(), recent.end()), recent.end());
  for (const std::int32_t id : recent) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
  }
}

const std::vector<Candidate>& Sampler::distribution(std::span<float> logits, std::span<const std::int32_t> history) {
  penalize(logits, history);
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > kNever) candidates_.push_back({static_cast<std::int32_t>(i), logits[i]});  // not NaN either
  }
  if (candidates_.empty()) throw ModelError("the model gave no usable logits; is the file damaged?");
  const auto keep = params_.top_k > 0 ? std::min(candidates_.size(), static_cast<std::size_t>(params_.top_k)) : candidates_.size();
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(keep), candidates_.end(), better);
  candidates_.resize(keep);

  const auto normalize = [&](double temperature) {  // logits in, probabilities out
    const double most = candidates_[0].probability;
    double sum = 0;
    for (const Candidate& c : candidates_) sum += std::exp((c.probability - most) / temperature);
    std::vector<double> p;
    for (const Candidate& c : candidates_) p.push_back(std::exp((c.probability - most) / temperature) / sum);
    return p;
  };
  const std::vector<double> plain = normalize(1.0);
  std::size_t count = 0;
  for (double mass = 0; count < keep && mass < params_.top_p; ++count) mass += plain[count];
  if (params_.top_p >= 1.0f) count = keep;
  while (count > 1 && plain[count - 1] < params_.min_p * plain[0]) --count;
  candidates_.resize(std::max<std::size_t>(count, 1));
  const std::vector<double> p = normalize(params_.temperature > 0 ? params_.temperature : 1.0);
  for (std::size_t i = 0; i < candidates_.size(); ++i) candidates_[i].probability = static_cast<float>(p[i]);
  return candidates_;
}

std::int32_t Sampler::sample(std::span<float> logits, std::span<const std::int32_t> history, std::int64_t position) {
  if (params_.temperature > 0) {
    const std::vector<Candidate>& candidates = distribution(logits, history);
    double total = 0;
    for (const Candidate& c : candidates) total += c.probability;
    double left = uniform(params_.seed, static_cast<std::uint64_t>(position)) * total;
    for (const Candidate& c : candidates) {
      left -= c.probability;
      if (left < 0) return c.id;
    }
    return candidates.back().id;
  }
  penalize(logits, history);
  std::int32_t best = -1;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > kNever && (best < 0 || logits[i] > logits[static_cast<std::size_t>(best)])) best = static_cast<std::int32_t>(i);
  }
  if (best < 0) throw ModelError("the model gave no usable logits; is the file damaged?");
  return best;
}

}  // namespace yamata
