#pragma once
// The text of a request while it is being generated.
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mpi/decoding/prefix_cache.hpp"
#include "mpi/engine/request.hpp"
#include "node/clock.hpp"
#include "node/error.hpp"
#include "node/fnv1a.hpp"

namespace yamata {

/// A request that has been submitted.
struct Submitted {
  RequestId id;
  Request request;
  RequestObserver* observer;
  Clock::time_point at;
};

/// The error of a request, which ends it alone.
struct RequestFailed {
  std::exception_ptr error;
};

/// Samples its tokens, tells its observer, and collects what becomes its Completion. Its calls to the observer, and its sampling, throw
/// RequestFailed.
class RequestText {
 public:
  /// `target` and `sources` outlive this. `options`: those of the job, with the text's own sequences.
  RequestText(Target& target, GuessSources& sources, const DecodeOptions& options, Submitted submitted);

  void begin(PrefixCache& cache);
  RequestId id() const { return completion_.request; }
  Decoder& decoder() { return decoder_; }
  const Decoder& decoder() const { return decoder_; }
  RequestObserver& observer() { return observer_; }
  /// Where it is in the cache.
  SequenceRange sequences() const { return sequences_; }
  /// The most cells that it will hold, without guesses.
  std::int32_t most_cells() const { return most_cells_; }

  /// Whether its observer is being called with a token.
  bool telling() const { return telling_; }
  /// Ends the text after the token with which its observer is being called.
  void interrupt() { interrupted_ = true; }
  void stop() { stopped_ = true; }
  PromptProgress progress() const {
    return {.tokens = request_.prompt.size(), .cached = decoder_.reused(), .computed = decoder_.prompt_computed()};
  }
  /// Why the text has ended, after the decoder has finished.
  FinishReason reason() const;
  /// Its result, once.
  Completion complete(FinishReason reason);

 private:
  void keep_states(PrefixCache& cache, std::size_t from);
  std::int32_t choose(std::vector<float>& logits, std::span<const std::int32_t> history);
  std::vector<TokenLogprob> note_probabilities(std::span<const float> logits);
  void tell_probability(std::int32_t token, const std::vector<TokenLogprob>& top);
  bool take(std::int32_t token);

  const Request request_;
  const Clock::time_point submitted_;
  RequestObserver& observer_;
  const std::vector<DraftLink*>& drafters_;
  const std::int32_t context_, batch_;
  const SequenceRange sequences_;
  const std::int32_t most_cells_;
  Sampler sampler_;
  TokenGrammar::State grammar_state_;  // at the end of the text
  Fnv1a checksum_;                     // of the logits from which tokens were sampled
  std::vector<float> logits_;          // of the token that is being sampled; for log-probabilities
  float log_sum_ = 0;
  Clock::time_point began_, prefilled_;
  bool stopped_ = false;  // by a token that ends the text
  bool telling_ = false, interrupted_ = false;
  Completion completion_;
  Decoder decoder_;
};

/// The most cells that the text of a request holds in a context of so many positions, without guesses.
std::int32_t most_cells(const Request& request, std::int32_t context);

}  // namespace yamata
