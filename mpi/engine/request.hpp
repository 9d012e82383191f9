#pragma once
// Requests to an engine, and their results.
#include <cstdint>
#include <exception>
#include <vector>

#include "mpi/decoding/decoder.hpp"
#include "src/sampling/sampler.hpp"

namespace yamata {

using RequestId = std::uint64_t;

/// A request for one text.
struct Request {
  std::vector<std::int32_t> prompt;  ///< token ids, from one to as many as the context has positions
  SamplingParams sampling;
  std::vector<std::int32_t> banned{};  ///< tokens that are never sampled
  std::int32_t generate = 128;         ///< tokens at most
  std::vector<std::int32_t> ends{};    ///< tokens that end the text; such a token is kept as the last one
  bool checksum = false;  ///< compute a checksum of the logits from which tokens are sampled; then all of them are sent to the head
};

enum class FinishReason {
  kLength,       ///< it has the requested number of tokens
  kStop,         ///< the model has ended it
  kContext,      ///< the context is full
  kInterrupted,  ///< it was interrupted
};

/// The result of a request.
struct Completion {
  RequestId request = 0;
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
  /// The text has grown by a token.
  virtual void on_token(RequestId /*request*/, std::int32_t /*token*/) {}
  /// It has ended; the last notification.
  virtual void on_finished(Completion completion) = 0;
  /// It has failed, by an error of its sampling or of on_token; the last notification, instead of on_finished. Other requests go on. The
  /// default passes the error to the caller of Engine::advance or run, which may then call them again.
  virtual void on_failed(RequestId /*request*/, std::exception_ptr error) { std::rethrow_exception(error); }
};

}  // namespace yamata
