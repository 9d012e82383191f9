#pragma once
// From logits to the next token.
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace yamata {

/// Added to a token's logit before penalties.
struct LogitBias {
  std::int32_t token;
  float bias;
};

struct SamplingParams {
  float temperature = 0.0f;  ///< 0: greedy
  std::int32_t top_k = 40;   ///< 0: off
  float top_p = 0.95f;       ///< 1: off
  float min_p = 0.05f;       ///< 0: off
  float repeat_penalty = 1.0f;
  std::int32_t repeat_last_n = 64;
  std::uint64_t seed = 0;
  float presence_penalty = 0.0f;   ///< subtracted from the logit of a token that the answer has already
  float frequency_penalty = 0.0f;  ///< the same for each time that it has it
  std::vector<LogitBias> bias{};
};

struct Candidate {
  std::int32_t id;
  float probability;
};

/// Philox4x32-10 keyed by the seed with the position as its counter: a draw in [0, 1) that depends on nothing else.
double uniform(std::uint64_t seed, std::uint64_t position);

/// How many of the highest logits, without `banned` ids, determine the sampled token with these parameters; 0: all of them. `answer`: how
/// many tokens the answer may have, for penalties of these.
std::size_t logits_read(const SamplingParams& params, std::size_t banned, std::size_t answer = 0);

class Sampler {
 public:
  /// `answer_begin`: the position of the answer's first token in the history. The repeat penalty counts the prompt, too.
  explicit Sampler(const SamplingParams& params, std::size_t answer_begin = 0) : params_(params), counted_(answer_begin) {}
  /// Ids that are never sampled (--ignore-eos).
  void ban(std::vector<std::int32_t> ids) { banned_ = std::move(ids); }
  /// The token at `position`, given the logits of the previous token and all text before it.
  /// Greedy ties go to the lowest id. Changes `logits`.
  std::int32_t sample(std::span<float> logits, std::span<const std::int32_t> history, std::int64_t position);
  /// The processed distribution that sample draws from, most probable first, ties by id. Changes `logits`.
  const std::vector<Candidate>& distribution(std::span<float> logits, std::span<const std::int32_t> history);

 private:
  void penalize(std::span<float> logits, std::span<const std::int32_t> history);
  void penalize_answer(std::span<float> logits, std::span<const std::int32_t> history);
  SamplingParams params_;
  std::size_t counted_;                                    // of the history
  std::unordered_map<std::int32_t, std::int32_t> counts_;  // of each of the answer's tokens
  std::vector<std::int32_t> banned_;
  std::vector<Candidate> candidates_;
};

}  // namespace yamata
