#pragma once
// From logits to the next token.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

struct SamplingParams {
  float temperature = 0.0f;  ///< 0: greedy
  std::int32_t top_k = 40;   ///< 0: off
  float top_p = 0.95f;       ///< 1: off
  float min_p = 0.05f;       ///< 0: off
  float repeat_penalty = 1.0f;
  std::int32_t repeat_last_n = 64;
  std::uint64_t seed = 0;
};

struct Candidate {
  std::int32_t id;
  float probability;
};

/// Philox4x32-10 keyed by the seed with the position as its counter: a draw in [0, 1) that depends on nothing else.
double uniform(std::uint64_t seed, std::uint64_t position);

/// How many of the highest logits, without `banned` ids, determine the sampled token with these parameters; 0: all of them.
std::size_t logits_read(const SamplingParams& params, std::size_t banned);

class Sampler {
 public:
  explicit Sampler(const SamplingParams& params) : params_(params) {}
  /// Ids that are never sampled (--ignore-eos).
  void ban(std::vector<std::int32_t> ids) { banned_ = std::move(ids); }
  /// The token at `position`, given the logits of the previous token and all text before it.
  /// Greedy ties go to the lowest id. Changes `logits`.
  std::int32_t sample(std::span<float> logits, std::span<const std::int32_t> history, std::int64_t position);
  /// The processed distribution that sample draws from, most probable first, ties by id. Changes `logits`.
  const std::vector<Candidate>& distribution(std::span<float> logits, std::span<const std::int32_t> history);

 private:
  void penalize(std::span<float> logits, std::span<const std::int32_t> history) const;
  SamplingParams params_;
  std::vector<std::int32_t> banned_;
  std::vector<Candidate> candidates_;
};

}  // namespace yamata
