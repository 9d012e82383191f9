#pragma once
// A unit that is slowed down, so that one machine can emulate several slow ones (launch/emulate --slow).
#include <string>

namespace yamata {

/// Used by one thread. After each operation it pauses in proportion to the processor time of the operation, which does not depend on other
/// hosts on the same core. Hosts on one machine can compute in turn, so that they share neither a core nor the memory bandwidth; waiting
/// for the turn counts as pausing. If a wait or pause was too long, the next pauses are shorter. Exchanges with other ranks are not slowed
/// down, and no host has the turn during them.
class Slowdown {
 public:
  /// The factor is at least 1; 1 slows nothing down. `turns`: a file that hosts lock while they compute; empty, or a file that cannot be
  /// opened: no host waits.
  explicit Slowdown(double factor = 1, const std::string& turns = {});
  ~Slowdown();
  Slowdown(Slowdown&& other) noexcept;
  Slowdown& operator=(Slowdown&& other) noexcept;

  void begin_operation();
  void end_operation();
  // Called around a part of an operation that is not computing.
  void begin_exchange();
  void end_exchange();

 private:
  bool slows() const { return factor_ > 1; }
  void begin_computing();
  void end_computing();

  double factor_;
  int turns_ = -1;  // file descriptor
  double began_cpu_s_ = 0;
  double debt_s_ = 0;
};

}  // namespace yamata
