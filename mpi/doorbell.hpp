#pragma once
// Bells between the ranks of one machine. MPI's shared memory can only be asked again and again, and on many machines a nap of any
// length costs more than the look after it: a rank that is rung for can sleep until then.
#include <cstdint>
#include <string>
#include <vector>

namespace yamata {

/// A socket of this rank that others ring by writing to it. Only wakes: nothing is said by it, and a ring may be lost.
class Doorbell {
 public:
  /// `job`: the same on all `ranks` of one job, on one machine no other's. A bell that cannot be had is never heard.
  Doorbell(std::uint64_t job, int rank, int ranks);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  /// Rings another rank's bell, after what it is to find is on its way. One on another machine hears nothing.
  void ring(int rank);
  /// Rings this rank's own; from any thread.
  void ring_own() const;
  struct Rings {
    bool own = false, others = false;
  };
  /// Takes all rings; whose they were.
  Rings answer() const;
  /// What poll tells a ring by; -1 without a bell.
  int fd() const { return fd_; }

 private:
  std::uint64_t job_;
  int rank_, fd_;
  std::vector<bool> out_of_earshot_;
};

}  // namespace yamata
