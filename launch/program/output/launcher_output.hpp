#pragma once
// What mpirun does with this process's standard output.
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace yamata {

/// The mpirun that forwards this process's standard output, if it runs on this machine.
class LauncherOutput {
 public:
  /// Must be constructed before anything is written.
  LauncherOutput();
  /// For a given process (0: none).
  explicit LauncherOutput(pid_t launcher);
  /// Whether mpirun could not write all of the `bytes` that this process has written. Waits while mpirun is still writing.
  bool loses(std::uint64_t bytes) const;
  /// Whether mpirun writes the output into this file.
  bool goes_to(const std::string& path) const;

 private:
  std::uint64_t position() const;
  bool is_full() const;
  pid_t launcher_ = 0;  ///< 0: there is none, or its output cannot be inspected
  bool never_writes_ = false;
  std::uint64_t began_ = 0;  ///< its position in the file at the beginning
};

}  // namespace yamata
