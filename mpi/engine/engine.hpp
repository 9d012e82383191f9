#pragma once
// Serves requests, one after another, with the ranks of one job, whose models are loaded once.
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/cluster/head.hpp"
#include "mpi/decoding/prefix_cache.hpp"
#include "mpi/engine/request.hpp"
#include "node/clock.hpp"

namespace yamata {

/// Owns what decoding needs in addition to the ranks: guess sources, sampler, statistics. Uses no terminal and no file. A state machine on
/// rank 0. Requests and runs have ids, so late results of a finished text do not disturb another one.
class Engine final : public DraftListener {
 public:
  /// `head` outlives the engine and notifies it. `sources`: the guess sources. `options`: the job's decoding options, except those of a
  /// request (request, generate, logits).
  Engine(Head& head, GuessSources sources, const DecodeOptions& options);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request and returns its id; ids ascend from 1. Throws UsageError if the prompt is empty or longer than the context.
  RequestId submit(Request request, RequestObserver& observer);
  /// Ends a request, whether it has begun or not. Its observer is notified before this returns, or soon after if the observer calls this
  /// from on_token. Does nothing if the request is over.
  void cancel(RequestId request);
  /// Ends the current text after the token with which its observer is being called, as if the model had ended it. Only from on_token.
  void stop(RequestId request);
  /// How far the prompt of the current request has been computed; nothing if no request has begun.
  std::optional<PromptProgress> prompt_progress() const;
  /// The same for the current request, or, if none has begun, for the first in the queue.
  void cancel_current();
  /// Does what is possible now, between steps of the head; true if anything happened. A request that fails ends alone; its observer is told
  /// (RequestObserver::on_failed).
  bool advance();
  /// Runs head and engine until nothing is left to do. If the head is interrupted, the current request ends with its text so far (its
  /// observer is notified), queued requests stay queued, and Interrupted is passed to the caller.
  void run();
  /// Nothing is left to do.
  bool idle() const { return !current_ && waiting_.empty(); }
  const GuessSources& sources() const { return sources_; }

  void on_guesses(int rank, const wire::Guesses& guesses) override;
  void on_drafter_lost(int rank) override;
  bool awaits(int rank) const override;

 private:
  struct Waiting {
    RequestId id;
    Request request;
    RequestObserver* observer;
    Clock::time_point submitted;
  };
  class Text;

  void begin_next();
  void finish(FinishReason reason);
  std::unique_ptr<Text> release(bool whole);
  void keep_states(bool whole);
  void fail(const std::exception_ptr& error);

  Head& head_;
  GuessSources sources_;
  const DecodeOptions options_;
  PrefixCache cache_;
  std::deque<Waiting> waiting_;
  std::unique_ptr<Text> current_;
  RequestId submitted_ = 0;
};

}  // namespace yamata
