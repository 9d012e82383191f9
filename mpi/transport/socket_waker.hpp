#pragma once
// Sleep that ends when a message arrives. MPI can only be polled, but a process can wait for its TCP sockets, and for notifications of
// ranks of the same machine.
#include <poll.h>

#include <chrono>
#include <vector>

#include "mpi/transport/doorbell.hpp"
#include "node/clock.hpp"

namespace yamata {

/// The TCP connections of this process, for poll to wait until there is something to read. MPI opens them when they are first needed.
std::vector<pollfd> connections();

/// Watches the TCP sockets of this process, without reading from them, and the notification socket if there is one. It learns whether these
/// announce messages; other networks do not use them.
class SocketWaker {
 public:
  explicit SocketWaker(const Doorbell* bell = nullptr) : bell_(bell) {}
  /// Waits for `limit`, or until another rank notifies this one or a socket has something to read; true in that case. A short sleep does
  /// not count as a trial of this.
  bool nap(std::chrono::microseconds limit) { return wait(limit, false); }
  bool sleep(std::chrono::microseconds limit) { return wait(limit, true); }
  /// Waits for `limit`, or until another rank notifies this one; not for sockets, which another thread reads meanwhile.
  void stand_back(std::chrono::microseconds limit);
  /// Called after the next check for a message, with its result.
  void looked(bool message);
  /// Whether a socket or a notification ended the last wait, and no message has been found since.
  bool expecting() const { return woken_; }
  /// Whether messages reliably end a sleep, with rare exceptions.
  bool trusted() const { return distrust_ == 0 && futile_ <= kMaxFutile; }

 private:
  bool wait(std::chrono::microseconds limit, bool counts);
  void find_sockets();

  const Doorbell* bell_;
  std::vector<pollfd> watched_;  // the doorbell's socket is the first
  Clock::time_point found_{};
  bool slept_ = false, woken_ = false, looked_ = false;
  int told_ = kNowAndThen;              // consecutive messages that ended a sleep
  int distrust_ = 0;                    // messages until it is trusted again
  int next_distrust_ = kFirstDistrust;  // doubles, so that on a network without such announcements trust rarely returns
  int futile_ = 0;                      // consecutive ended waits without a message
  static constexpr int kNowAndThen = 3, kFirstDistrust = 32;
  static constexpr int kMaxFutile = 8;  // a long message arrives in pieces; but an unread socket would end every rest
};

}  // namespace yamata
