#pragma once
// Rests that end when a message comes over TCP. MPI can only be asked again and again; its sockets can be waited for.
#include <poll.h>

#include <chrono>
#include <vector>

#include "node/clock.hpp"

namespace yamata {

/// Watches the TCP sockets of this process without reading from them. It finds out whether they tell of messages: shared memory and
/// other networks do not use them.
class SocketWaker {
 public:
  /// Sleeps for `nap`, or until a socket has something to read; true then.
  bool rest(std::chrono::microseconds nap);
  /// Somebody looked for a message after the rest, and there was one or not.
  void looked(bool message);
  /// A socket ended the last rest, and no message has been found since.
  bool expecting() const { return rested_ && woken_; }
  /// Of late most messages were told by a socket: rests may be long.
  bool trusted() const { return told_ > 0.7; }

 private:
  void find_sockets();

  std::vector<pollfd> sockets_;
  Clock::time_point found_{};
  bool rested_ = false, woken_ = false;
  double told_ = 0;  // share of messages, of late, that a socket told of
  int futile_ = 0;   // times in a row that a socket had something and there was no message
};

}  // namespace yamata
