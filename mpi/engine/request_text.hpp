#pragma once
// The text of a request while it is being generated.
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mpi/decoding/prefix_cache.hpp"
#include "mpi/engine/request.hpp"
#include "node/clock.hpp"
#include "node/error.hpp"
#include "node/fnv1a.hpp"

namespace yamata {

/// The error of a request, which ends it alone.
struct RequestFailed {
  std::exception_ptr error;
};

/// Samples its tokens, tells its observer, and collects what becomes its Completion. Its calls to the observer, and its sampling, throw
/// RequestFailed. It waits, is generated, and may be paused: then it waits again, and nothing of it is in the cache. Its tokens are the
/// same.
class RequestText {
 public:
  /// A request is submitted. `options`: those of the job.
  RequestText(const DecodeOptions& options, RequestId id, Request request, RequestObserver& observer);

  /// Where a text is generated. The sources outlive that.
  struct Place {
    GuessSources& sources;
    SequenceRange sequences;    ///< of the target's cache
    std::uint64_t number = 0;   ///< of texts that have begun or gone on, by which drafters distinguish them
    CachedBeginning beginning;  ///< what another text has computed of it
  };
  /// Begins, or goes on after a pause. `target` outlives that.
  void begin(Target& target, const Place& place, PrefixCache& cache);
  /// Ends decoding for now. The decoder has been left.
  void pause();
  RequestId id() const { return completion_.request; }
  /// While it is not waiting.
  Decoder& decoder() { return *decoder_; }
  const Decoder& decoder() const { return *decoder_; }
  RequestObserver& observer() { return observer_; }
  /// Its tokens so far, those of the prompt included.
  const std::vector<std::int32_t>& tokens() const { return decoder_ ? decoder_->text() : text_; }
  /// Whether it may use what other texts have computed.
  bool reuses() const { return request_.reuse; }

  /// Whether its observer is being called with a token.
  bool telling() const { return telling_; }
  /// Ends the text after the token with which its observer is being called.
  void interrupt() { interrupted_ = true; }
  void stop() { stopped_ = true; }
  PromptProgress progress() const {
    return {.tokens = request_.prompt.size(), .cached = decoder_->reused(), .computed = decoder_->prompt_computed()};
  }
  /// Why the text has ended, after the decoder has finished.
  FinishReason reason() const;
  /// Its result, once.
  Completion complete(FinishReason reason);

 private:
  void keep_checkpoints(PrefixCache& cache, std::int32_t sequence, std::size_t from);
  std::int32_t choose(std::vector<float>& logits, std::span<const std::int32_t> history);
  std::vector<TokenLogprob> note_probabilities(std::span<const float> logits);
  void tell_probability(std::int32_t token, const std::vector<TokenLogprob>& top);
  bool take(std::int32_t token);

  const DecodeOptions options_;
  const Request request_;
  const Clock::time_point submitted_;
  RequestObserver& observer_;
  const std::vector<DraftLink*>* drafters_ = nullptr;
  std::vector<std::int32_t> text_;  // when it began last, or while it waits
  Sampler sampler_;
  TokenGrammar::State grammar_state_;  // at the end of the text
  Fnv1a checksum_;                     // of the logits from which tokens were sampled
  std::vector<float> logits_;          // of the token that is being sampled; for log-probabilities
  float log_sum_ = 0;
  std::optional<Clock::time_point> began_;
  Clock::time_point prefilled_;
  bool stopped_ = false;  // by a token that ends the text
  bool telling_ = false, interrupted_ = false;
  Completion completion_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace yamata
