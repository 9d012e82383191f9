#pragma once
// Rests that end when a message comes. MPI can only be asked again and again; its TCP sockets, and the bell that ranks of one machine
// ring, can be waited for.
#include <poll.h>

#include <chrono>
#include <vector>

#include "mpi/doorbell.hpp"
#include "node/clock.hpp"

namespace yamata {

/// Watches the TCP sockets of this process without reading from them, and a bell if there is one. It finds out whether they tell of
/// messages: other networks do not use them.
class SocketWaker {
 public:
  explicit SocketWaker(const Doorbell* bell = nullptr) : bell_(bell) {}
  /// Sleeps for `nap`, or until the bell rings or a socket has something to read; true then.
  bool rest(std::chrono::microseconds nap);
  /// Somebody looked for a message after the rest, and there was one or not.
  void looked(bool message);
  /// A socket or another rank's ring ended the last rest, and no message has been found since.
  bool expecting() const { return rested_ && woken_; }
  /// Of late nearly all messages ended a rest: rests may be long.
  bool trusted() const { return told_ > 0.9; }

 private:
  void find_sockets();

  const Doorbell* bell_;
  std::vector<pollfd> watched_;  // the bell first
  Clock::time_point found_{};
  bool rested_ = false, woken_ = false;
  double told_ = 1;  // share of messages, of late, that ended a rest; the first that does not shows
  int futile_ = 0;   // times in a row that there was no message after a rest that had ended
};

}  // namespace yamata
