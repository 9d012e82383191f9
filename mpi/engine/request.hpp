#pragma once
// Requests to an engine, and their results.
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/decoding/decoder.hpp"
#include "src/sampling/sampler.hpp"

namespace yamata {

using RequestId = std::uint64_t;

/// A request for one text.
struct Request {
  std::vector<std::int32_t> prompt;  ///< token ids, from one to as many as the context has positions
  SamplingParams sampling;
  std::vector<std::int32_t> banned{};       ///< tokens that are never sampled
  std::int32_t generate = 128;              ///< tokens at most
  std::vector<std::int32_t> ends{};         ///< tokens that end the text; such a token is kept as the last one
  std::int32_t kept = 0;                    ///< the last tokens of the prompt that are the beginning of the answer
  std::shared_ptr<TokenGrammar> grammar{};  ///< what the answer must become; nothing: anything
  std::optional<std::int32_t> logprobs{};   ///< observe log-probabilities, with so many alternatives
  bool reuse = true;                        ///< take over what is in the cache of an earlier text with the same beginning
  bool checksum = false;  ///< compute a checksum of the logits from which tokens are sampled; then all of them are sent to the head
};

enum class FinishReason {
  kLength,       ///< it has the requested number of tokens
  kStop,         ///< the model has ended it
  kContext,      ///< the context is full
  kInterrupted,  ///< it was interrupted
};

/// How probable a token is before temperature, penalties and whatever else sampling does.
struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;
};

/// How far a prompt has been computed, in tokens.
struct PromptProgress {
  std::size_t tokens = 0, cached = 0, computed = 0;
};

/// The result of a request.
struct Completion {
  RequestId request = 0;
  std::size_t cached_tokens = 0;  ///< of the prompt, that were in the cache
  FinishReason finish = FinishReason::kLength;
  std::vector<std::int32_t> token_ids;
  std::vector<std::vector<Choice>> choices;  ///< per token, the first drafter's choices for it; empty without drafters
  double prefill_s = 0;                      ///< from its begin until its first token was known
  double sample_s = 0;                       ///< time of sampling
  double first_token_s = 0;                  ///< the same from its submission, so with the time in the queue
  std::vector<double> token_times_s;         ///< when each token was known, from the end of prefill; the first is 0
  Decoder::Counters counters;
  double first_choice_rate = 0;  ///< share of the last hundred tokens or so that were the first drafter's first choice
  std::uint64_t logits_checksum = 0;
  std::uint64_t feature_bytes = 0;  ///< of hidden states that went from this rank to others that compute heads
};

/// Is notified of a request's progress; outlives the request.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  /// If the request asks for it, before on_token: the token's log-probability, and those of the most probable tokens.
  virtual void on_logprobs(RequestId /*request*/, const TokenLogprob& /*token*/, const std::vector<TokenLogprob>& /*top*/) {}
  /// The text has grown by a token.
  virtual void on_token(RequestId /*request*/, std::int32_t /*token*/) {}
  /// It has ended; the last notification.
  virtual void on_finished(Completion completion) = 0;
  /// It has failed, by an error of its sampling or of on_token; the last notification, instead of on_finished. Other requests go on. The
  /// default passes the error to the caller of Engine::advance or run, which may then call them again.
  virtual void on_failed(RequestId /*request*/, std::exception_ptr error) { std::rethrow_exception(error); }
};

}  // namespace yamata
