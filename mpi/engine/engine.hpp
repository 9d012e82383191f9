#pragma once
// Serves requests, several at a time, with the ranks of one job, whose models are loaded once.
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/cluster/head.hpp"
#include "mpi/decoding/prefix_cache.hpp"
#include "mpi/engine/request_text.hpp"
#include "mpi/engine/scheduler.hpp"

namespace yamata {

/// Owns what decoding needs in addition to the ranks: guess sources, sampler, statistics. Uses no terminal and no file. A state machine on
/// rank 0. Requests and runs have ids, so late results of a finished text do not disturb another one.
///
/// As many texts are generated at a time as there are slots, each in sequences of its own. A request waits until there is a slot, and room
/// in the cache for its prompt and some more; none overtakes another. When the cache is full, the youngest text is paused: it gives its
/// cells back, and goes on when there is room again. Whatever else is computed, a request's text is the same.
class Engine final : public DraftListener {
 public:
  /// Cells that a text must have to grow when it begins.
  static constexpr std::int32_t kRoomToGrow = 16;

  /// `head` outlives the engine and notifies it. `sources`: the guess sources of the first slot; those of the others are alike, without
  /// drafts that share this rank's unit. `options`: the job's decoding options, except those of a request (request, generate, logits).
  Engine(Head& head, GuessSources sources, const DecodeOptions& options);
  /// Without a head: the caller advances the ranks as well, and passes on what drafters guess. `plan`: the target's.
  Engine(Pipeline& target, const wire::PipelinePlan& plan, GuessSources sources, const DecodeOptions& options);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request and returns its id; ids ascend from 1. Throws UsageError if the prompt is empty or longer than the context.
  RequestId submit(Request request, RequestObserver& observer);
  /// Ends a request, whether it has begun or not. Its observer is notified before this returns, or soon after if the observer calls this
  /// from on_token. Does nothing if the request is over.
  void cancel(RequestId request);
  /// Ends a text after the token with which its observer is being called, as if the model had ended it. Only from on_token.
  void stop(RequestId request);
  /// How far the prompt of a request has been computed; nothing if it has not begun, or is over.
  std::optional<PromptProgress> prompt_progress(RequestId request) const;
  /// Does what is possible now, between steps of the head; true if anything happened. A request that fails ends alone; its observer is told
  /// (RequestObserver::on_failed).
  bool advance();
  /// Runs its head and itself until nothing is left to do. If the head is interrupted, the texts that have begun end with what they have
  /// (their observers are notified), queued requests stay queued, and Interrupted is passed to the caller. If none has begun, the first in
  /// the queue ends.
  void run();
  /// Nothing is left to do.
  bool idle() const;
  std::size_t slots() const { return slots_.size(); }
  /// Texts that are being generated.
  std::size_t begun() const;
  /// Cells of the cache that these hold, guesses aside. Looks at each.
  std::int32_t cells() const;
  /// How often a text has been paused.
  std::uint64_t pauses() const { return pauses_; }
  const GuessSources& sources() const { return slots_.front().sources; }

  void on_guesses(int rank, const wire::Guesses& guesses) override;
  void on_drafter_lost(int rank) override;
  bool awaits(int rank) const override;

 private:
  struct Slot;
  /// What a text has in common with another one that has begun.
  struct Beginning {
    const Slot* other = nullptr;
    std::size_t tokens = 0, computed = 0;
    bool all_there = false;  // layers have all of the other text, so that this one may go on after any token that is computed
  };
  /// A place for a text.
  struct Slot {
    GuessSources sources;
    SequenceRange sequences;
    std::unique_ptr<RequestText> text;
  };

  RequestText* find(RequestId request) const;
  bool begin_waiting();
  bool fits(const RequestText& text) const;
  Beginning longest_beginning(const RequestText& text) const;
  bool should_wait(const RequestText& text, const Beginning& shared) const;
  void make_room();
  bool pause_youngest();
  void empty(const Slot& slot);
  bool receive();
  bool send();
  void finish(Slot& slot, FinishReason reason);
  std::unique_ptr<RequestText> release(Slot& slot, bool whole);
  void end_in_cache(const Slot& slot);
  void keep_end(const Slot& slot);
  void end_begun();

  Head* head_ = nullptr;
  const DecodeOptions options_;
  Target target_;
  PrefixCache cache_;
  std::vector<Slot> slots_;
  Scheduler scheduler_;
  std::deque<std::unique_ptr<RequestText>> waiting_;  // the oldest first
  RequestId submitted_ = 0;
  std::uint64_t begun_ = 0, pauses_ = 0;
};

}  // namespace yamata
