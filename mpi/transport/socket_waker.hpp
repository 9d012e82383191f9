#pragma once
// Sleep that ends when a message comes. MPI can only be asked again and again; its TCP sockets, and the
// notifications of ranks of the same machine, can be waited for.
#include <poll.h>

#include <chrono>
#include <vector>

#include "mpi/transport/doorbell.hpp"
#include "node/clock.hpp"

namespace yamata {

/// Watches the TCP sockets of this process without reading from them, and a bell if there is one. It finds out whether they tell of
/// messages: other networks do not use them.
class SocketWaker {
 public:
  explicit SocketWaker(const Doorbell* bell = nullptr) : bell_(bell) {}
  /// Waits for `limit`, or until another rank notifies this one or a socket has something to read; true then. A nap is too short to count on that.
  bool nap(std::chrono::microseconds limit) { return wait(limit, false); }
  bool sleep(std::chrono::microseconds limit) { return wait(limit, true); }
  /// Waits for `limit`, or until another rank notifies this one; not for sockets, which another thread reads meanwhile.
  void stand_back(std::chrono::microseconds limit);
  /// Somebody looked for a message afterwards, and there was one or not.
  void looked(bool message);
  /// A socket or another rank's notification ended the last wait, and no message has been found since.
  bool expecting() const { return woken_; }
  /// Messages end a sleep, but for one now and then.
  bool trusted() const { return distrust_ == 0 && futile_ <= kMostFutile; }

 private:
  bool wait(std::chrono::microseconds limit, bool counts);
  void find_sockets();

  const Doorbell* bell_;
  std::vector<pollfd> watched_;  // the bell first
  Clock::time_point found_{};
  bool slept_ = false, woken_ = false, looked_ = false;
  int told_ = kNowAndThen;              // messages in a row that ended a sleep
  int distrust_ = 0;                    // messages still to come before there is trust again
  int next_distrust_ = kFirstDistrust;  // doubles: on a network that tells of nothing trust must not come back often
  int futile_ = 0;                      // times in a row that there was no message after a wait that had ended
  static constexpr int kNowAndThen = 3, kFirstDistrust = 32;
  static constexpr int kMostFutile = 8;  // a long message comes in pieces; a socket that nobody reads would never let anyone rest
};

}  // namespace yamata
