#pragma once
// Notifications between the ranks of one machine. MPI's shared memory can only be polled, and on many machines even a short sleep costs
// more than polling. A rank that gets notifications can sleep until one arrives.
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace yamata {

/// A socket of this rank, to which others write to notify it, and a page of memory in which it says whether it sleeps, mapped by the other
/// ranks of the machine. A notification costs 10 to 25 us, reading the page almost nothing. They carry no other information, and a
/// notification may be lost. Neither has a name in a folder, so a job that is killed leaves nothing behind.
class Doorbell {
 public:
  /// Where other processes of this machine find the page.
  struct Page {
    std::int32_t process = 0, descriptor = -1;
  };

  /// `job`: a name that all `ranks` of one job share, and that no other job on the machine has. If the socket cannot be made, no
  /// notification arrives; without the page, only the rank itself can notify it.
  Doorbell(std::uint64_t job, int rank, int ranks);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;
  Page page() const;
  /// Maps another rank's page, which must be open. Nothing happens if that rank is on another machine.
  void map(int rank, Page page);

  /// Notifies another rank if it sleeps on this machine. Call it after sending the message.
  void notify(int rank) const;
  /// Whether another rank of this machine has ended, as far as is known.
  bool has_ended(int rank) const;
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
  std::string page_name(int rank) const;

  std::uint64_t job_;
  int rank_, fd_ = -1, page_fd_ = -1;
  std::vector<Sleeper*> sleepers_;  // one per rank; null if its page is not mapped
};

}  // namespace yamata
