#pragma once
// A device is one process's.
#include <string>

namespace yamata::cuda {

/// Holds a device of this machine as long as it lives, or the process.
class DeviceClaim {
 public:
  /// Throws UsageError where another process has it.
  explicit DeviceClaim(const std::string& device);
  ~DeviceClaim();
  DeviceClaim(const DeviceClaim&) = delete;
  DeviceClaim& operator=(const DeviceClaim&) = delete;

 private:
  int socket_ = -1;
};

}  // namespace yamata::cuda
