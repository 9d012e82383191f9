#pragma once
// Only one process may use a device.
#include <memory>
#include <string>

namespace yamata::cuda {

/// Reserves a device of this machine during its lifetime, at most until the process ends.
class DeviceClaim {
 public:
  /// Throws UsageError if another process has it. `scope`: processes that give different ones do not share devices.
  explicit DeviceClaim(const std::string& device, const std::string& scope = {});
  ~DeviceClaim();
  /// The claim of this process, whose units all hold the same one. From any thread; throws likewise.
  static std::shared_ptr<DeviceClaim> of_process(const std::string& device, const std::string& scope = {});
  DeviceClaim(const DeviceClaim&) = delete;
  DeviceClaim& operator=(const DeviceClaim&) = delete;

 private:
  int socket_ = -1;
};

}  // namespace yamata::cuda
