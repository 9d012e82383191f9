#include "node/cuda/device/device_claim.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>

#include "node/error.hpp"

namespace yamata::cuda {

// The name of an abstract Unix socket is released when the process ends, however it ends. If the kernel has no such sockets, or gives none,
// the device is not protected.
DeviceClaim::DeviceClaim(const std::string& device, const std::string& scope) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "yamata device " + device + scope;
  std::copy_n(name.begin(), std::min(name.size(), sizeof(address.sun_path) - 1), address.sun_path + 1);
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), length) == 0 || errno != EADDRINUSE) return;
  close(socket_);
  throw UsageError("device " + device + " is used by another rank or job of this machine; give each rank one of its own, or cpu");
}

std::shared_ptr<DeviceClaim> DeviceClaim::of_process(const std::string& device, const std::string& scope) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<DeviceClaim>> claims;
  const std::lock_guard lock(mutex);
  std::weak_ptr<DeviceClaim>& kept = claims[device + scope];
  std::shared_ptr<DeviceClaim> claim = kept.lock();
  if (!claim) kept = claim = std::make_shared<DeviceClaim>(device, scope);
  return claim;
}

DeviceClaim::~DeviceClaim() {
  if (socket_ >= 0) close(socket_);
}

}  // namespace yamata::cuda
