#pragma once
// What is asked of an engine, and what comes of it.
#include <cstdint>
#include <vector>

#include "mpi/decoding/decoder.hpp"
#include "src/sampling/sampler.hpp"

namespace yamata {

using RequestId = std::uint64_t;

/// One text to be written.
struct Request {
  std::vector<std::int32_t> prompt;  ///< token ids, at least one, at most as many as the context has positions
  SamplingParams sampling;
  std::vector<std::int32_t> banned{};  ///< tokens that are never chosen
  std::int32_t generate = 128;         ///< tokens at most
  std::vector<std::int32_t> ends{};    ///< tokens that end the text; the one that did is its last token
  bool checksum = false;               ///< of the logits that tokens are chosen from, all of which are sent to the head then
};

enum class FinishReason {
  kLength,       ///< it has as many tokens as were asked for
  kStop,         ///< the model has ended it
  kContext,      ///< the context is full
  kInterrupted,  ///< somebody has
};

/// What has become of a request.
struct Completion {
  RequestId request = 0;
  FinishReason finish = FinishReason::kLength;
  std::vector<std::int32_t> token_ids;
  std::vector<std::vector<Choice>> choices;  ///< per token, what the first drafter had said of it; empty without drafters
  double prefill_s = 0;
  std::vector<double> token_times_s;  ///< when each token was known, from the end of prefill; the first is 0
  Decoder::Counters counters;
  double first_choice_rate = 0;  ///< share of the last hundred tokens or so that were the first drafter's first choice
  std::uint64_t logits_checksum = 0;
  std::uint64_t feature_bytes = 0;  ///< of hidden states that went from this rank to others that compute heads
};

/// Told of a request as it goes on; outlives it.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  /// The text has grown by a token.
  virtual void on_token(RequestId /*request*/, std::int32_t /*token*/) {}
  /// It has ended; the last that is told of it.
  virtual void on_finished(Completion completion) = 0;
};

}  // namespace yamata
