#include "node/cuda/device_claim.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "node/error.hpp"

namespace yamata::cuda {

// A name in the kernel's own namespace of sockets is given back with the process, however it ends. Where the kernel has no such names, or
// gives none, nobody is kept from the device.
DeviceClaim::DeviceClaim(const std::string& device) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "yamata device " + device;
  std::copy_n(name.begin(), std::min(name.size(), sizeof(address.sun_path) - 1), address.sun_path + 1);
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), length) == 0 || errno != EADDRINUSE) return;
  close(socket_);
  throw UsageError("device " + device +
                   " is used by another rank or job of this machine; give each rank one of its own with --units, or cpu");
}

DeviceClaim::~DeviceClaim() {
  if (socket_ >= 0) close(socket_);
}

}  // namespace yamata::cuda
