#pragma once
// The orderly end between ranks.
#include <chrono>

#include "mpi/transport/transport.hpp"
#include "node/awake_clock.hpp"

namespace yamata {

/// Every rank that is left plays it: the head says when, each other answers when all that it sent has left, and the head sends all home.
/// Meanwhile all go on taking messages, which nobody needs any more: a large one leaves only when it is taken, and a rank that stopped
/// taking would hold the others back for ever. A state machine.
class Disconnect {
 public:
  /// The head takes a rank for lost that is silent for `patience`; the others the head, where it does not begin within `head_patience`.
  Disconnect(Transport& transport, std::chrono::milliseconds patience, std::chrono::milliseconds head_patience);

  /// Takes messages and goes on; true once it is over.
  bool step();
  bool over() const { return state_ == State::kTogether || state_ == State::kApart; }
  /// Over, and no rank was lost on the way: else what all ranks must do together would never end.
  bool together() const { return state_ == State::kTogether; }

 private:
  enum class State {
    kAwaitingHead,     ///< not the head: for it to begin
    kAwaitingRelease,  ///< not the head: it has answered
    kAwaitingAnswers,  ///< the head: it has given the word
    kLeaving,          ///< the head: it has sent all home, and that has to leave
    kTogether,
    kApart,
  };
  bool go_on();
  void wait(State state, std::chrono::milliseconds limit);
  void release_all();

  Transport& transport_;
  const std::chrono::milliseconds patience_;
  State state_ = State::kAwaitingHead;
  AwakeClock clock_;
  Clock::time_point deadline_;  // on that clock
  int others_ = 0;        // that are expected to answer
  int disconnects_ = 0;   // that have come
  bool all_here_ = true;  // as the head finds; the others, as it has said
};

/// Plays it to its end and says whether the ranks parted together.
bool part(Transport& transport, std::chrono::milliseconds patience, std::chrono::milliseconds head_patience);

}  // namespace yamata
