#pragma once
// The orderly disconnection of ranks at the end of a job.
#include <chrono>

#include "mpi/transport/transport.hpp"
#include "node/awake_clock.hpp"

namespace yamata {

/// A state machine on every remaining rank. The head announces the disconnection, each other rank answers once all its messages have been
/// sent, and the head releases all. Meanwhile all ranks keep receiving messages, although they are no longer needed: a large message is
/// sent only when it is received, so a rank that stopped receiving would block the others for ever.
class Disconnect {
 public:
  /// The head considers a rank lost if it is silent for `patience`; the others consider the head lost if it does not begin within
  /// `head_patience`.
  Disconnect(Transport& transport, std::chrono::milliseconds patience, std::chrono::milliseconds head_patience);

  /// Receives messages and advances; true once the disconnection is over.
  bool step();
  bool over() const { return state_ == State::kTogether || state_ == State::kApart; }
  /// It is over, and no rank was lost. Otherwise, collective operations of all ranks would never end.
  bool together() const { return state_ == State::kTogether; }

 private:
  enum class State {
    kAwaitingHead,     ///< not on the head: waits for the announcement
    kAwaitingRelease,  ///< not on the head: has answered
    kAwaitingAnswers,  ///< on the head: has announced it
    kLeaving,          ///< on the head: has sent the release, which is still being sent
    kTogether,
    kApart,
  };
  bool advance_state();
  void wait(State state, std::chrono::milliseconds limit);
  void release_all();

  Transport& transport_;
  const std::chrono::milliseconds patience_;
  State state_ = State::kAwaitingHead;
  AwakeClock clock_;
  Clock::time_point deadline_;  // on that clock
  int others_ = 0;              // number of ranks that should answer
  int disconnects_ = 0;         // number of kDisconnect messages received
  bool all_here_ = true;        // on the head: whether no rank is lost; on the others: the head's result
};

/// Runs it to the end and returns whether all ranks disconnected together.
bool part(Transport& transport, std::chrono::milliseconds patience, std::chrono::milliseconds head_patience);

}  // namespace yamata
