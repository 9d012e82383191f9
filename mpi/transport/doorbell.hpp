#pragma once
// Notifications between the ranks of one machine. MPI's shared memory can only be polled, and on many machines even a short sleep costs
// more than polling. A rank that gets notifications can sleep until one arrives.
#include <atomic>
#include <cstdint>
#include <string>

namespace yamata {

/// A socket of this rank, to which others write to notify it, and a page of shared memory in which each rank of the machine says whether it
/// sleeps. A notification costs 10 to 25 us, reading the page almost nothing. They carry no other information, and a notification may be
/// lost.
class Doorbell {
 public:
  /// `job`: a name that all `ranks` of one job share, and that no other job on the machine has. If the socket cannot be made, no
  /// notification arrives; without the page, only the rank itself can notify it.
  Doorbell(std::uint64_t job, int rank, int ranks);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;
  /// Called when all ranks have made theirs: unlinks the page, which is freed with the last rank.
  void unlink() const;

  /// Notifies another rank if it sleeps on this machine. Call it after sending the message.
  void notify(int rank) const;
  /// Notifies this rank itself, asleep or not; from any thread.
  void notify_own() const;
  /// Sets whether others must notify this rank. After setting it, the rank checks once more for messages, and then waits.
  void asleep(bool sleeps) const;
  struct Notifications {
    bool own = false, others = false;
  };
  /// Takes all notifications, and returns their senders.
  Notifications answer() const;
  /// The descriptor that poll waits for; -1 without one.
  int fd() const { return fd_; }

 private:
  struct alignas(64) Sleeper {
    std::atomic<std::uint32_t> sleeps{0};
  };
  std::string page_name() const;

  std::uint64_t job_;
  int rank_, ranks_, fd_ = -1;
  Sleeper* sleepers_ = nullptr;  // one per rank; null if there is no shared memory
};

}  // namespace yamata
