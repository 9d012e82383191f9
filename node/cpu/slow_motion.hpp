#pragma once
// A unit that takes several times as long as it does: how one machine stands in for several slow ones (launch/emulate --slow).
#include <string>

namespace yamata {

/// Used by one thread. After each operation it pauses for so many times the processor time that the operation has taken, which other hosts
/// on the same core do not add to. Hosts on one machine can compute in turn, so that they share neither a core nor the memory's bandwidth:
/// waiting for the turn counts as pausing. What one waited or paused too long, the next pauses are shorter. Exchanges with other ranks keep
/// their own speed, and nobody has the turn meanwhile.
class SlowMotion {
 public:
  /// Times as long, at least 1: where it is 1 nothing is slowed down. `turns`: a file that hosts lock while they compute; empty: nobody
  /// waits. One that cannot be opened is as none.
  explicit SlowMotion(double factor = 1, const std::string& turns = {});
  ~SlowMotion();
  SlowMotion(SlowMotion&& other) noexcept;
  SlowMotion& operator=(SlowMotion&& other) noexcept;

  void begin_operation();
  void end_operation();
  // Around what is no computing within an operation.
  void begin_exchange();
  void end_exchange();

 private:
  bool slows() const { return factor_ > 1; }
  void begin_computing();
  void end_computing();

  double factor_;
  int turns_ = -1;  // file descriptor
  double began_cpu_s_ = 0;
  double owed_s_ = 0;
};

}  // namespace yamata
