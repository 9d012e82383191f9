#pragma once
// What becomes of standard output that goes through mpirun.
#include <sys/types.h>

#include <cstdint>

namespace yamata {

/// The mpirun that passes this process' standard output on, where one of this machine does.
class LauncherOutput {
 public:
  /// To be made before anything is written.
  LauncherOutput();
  /// For a process (0: none).
  explicit LauncherOutput(pid_t launcher);
  /// Whether mpirun could not write all of the `bytes` that this process has written. It is waited for while it is behind.
  bool loses(std::uint64_t bytes) const;

 private:
  std::uint64_t position() const;
  bool is_full() const;
  pid_t launcher_ = 0;  ///< 0: there is none, or its output cannot be looked at
  bool never_writes_ = false;
  std::uint64_t began_ = 0;  ///< its position in the file then
};

}  // namespace yamata
