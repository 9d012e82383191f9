#pragma once
// Writes texts: requests one after another over the ranks of one job, whose models are loaded once.
#include <deque>
#include <memory>
#include <vector>

#include "mpi/cluster/head.hpp"
#include "mpi/engine/request.hpp"

namespace yamata {

/// Owns what decoding needs beyond the ranks: the sources of guesses, the sampler, the statistics. Knows no terminal and no file. A
/// state machine on rank 0. Requests are told apart by their ids, and results by those of their runs: what comes late of a text that is
/// over disturbs no other.
class Engine final : public DraftListener {
 public:
  /// `head` serves and outlives the engine, which listens to it. `sources`: who guesses. `options`: how this job decodes, apart from what a
  /// request says (request, generate, logits).
  Engine(Head& head, GuessSources sources, const DecodeOptions& options);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request; gives its id, which ascend from 1. Throws UsageError where the prompt is empty or longer than the context.
  RequestId submit(Request request, RequestObserver& observer);
  /// Ends a request, begun or not; its observer is told before this returns, or, where it calls this from on_token, soon after. Nothing
  /// where it is over.
  void cancel(RequestId request);
  /// The same for the request at hand, or where none has begun, the first that waits.
  void cancel_current();
  /// Does what can be done now, between steps of the head; true if anything happened.
  bool advance();
  /// Lets head and engine go on until nothing is left to do. Where the head is interrupted, the request at hand ends with what text it has
  /// (its observer is told), those that wait stay, and Interrupted goes on to the caller.
  void run();
  /// Nothing is left to do.
  bool idle() const { return !current_ && waiting_.empty(); }

  void on_guesses(int rank, const wire::Guesses& guesses) override;
  void on_drafter_lost(int rank) override;
  bool awaits(int rank) const override;

 private:
  struct Waiting {
    RequestId id;
    Request request;
    RequestObserver* observer;
  };
  class Text;

  void begin_next();
  void finish(FinishReason reason);

  Head& head_;
  GuessSources sources_;
  const DecodeOptions options_;
  std::deque<Waiting> waiting_;
  std::unique_ptr<Text> current_;
  RequestId submitted_ = 0;
};

}  // namespace yamata
