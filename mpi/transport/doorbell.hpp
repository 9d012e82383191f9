#pragma once
// Bells between the ranks of one machine. MPI's shared memory can only be asked again and again, and on many machines a nap of any
// length costs more than the look after it: a rank that is notified can sleep until then.
#include <atomic>
#include <cstdint>
#include <string>

namespace yamata {

/// A socket of this rank that others notify by writing to it, and a page of memory in which each rank of the machine says whether it
/// sleeps: a notification costs 10 to 25 us, a look at the page nothing. Nothing else is said by either, and a notification may be lost.
class Doorbell {
 public:
  /// `job`: the same on all `ranks` of one job, on one machine no other's. A bell that cannot be had is never heard; without the page
  /// only a rank itself can notify it.
  Doorbell(std::uint64_t job, int rank, int ranks);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;
  /// All ranks have made theirs: the page loses its name, and goes with the last of them.
  void unlink() const;

  /// Notifications for another rank if it sleeps on this machine; after what it is to find is on its way.
  void notify(int rank) const;
  /// Notifications for this rank itself, asleep or not; from any thread.
  void notify_own() const;
  /// Whether others are to notify this rank. It looks once more after having said so, and then waits.
  void asleep(bool sleeps) const;
  struct Notifications {
    bool own = false, others = false;
  };
  /// Takes all notifications; whose they were.
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
  Sleeper* sleepers_ = nullptr;  // one per rank; null where there is no shared memory
};

}  // namespace yamata
