#include "node/device_memory.hpp"

#include <algorithm>
#include <mutex>

namespace yamata {
namespace {

struct DeviceMemoryUse {
  std::mutex mutex;
  std::int64_t bytes = 0, most = 0;
};

DeviceMemoryUse& device_memory_use() {
  static DeviceMemoryUse use;
  return use;
}

}  // namespace

void count_device_bytes(std::int64_t more) {
  DeviceMemoryUse& use = device_memory_use();
  const std::lock_guard lock(use.mutex);
  use.bytes += more;
  use.most = std::max(use.most, use.bytes);
}

std::uint64_t peak_device_bytes() {
  DeviceMemoryUse& use = device_memory_use();
  const std::lock_guard lock(use.mutex);
  return static_cast<std::uint64_t>(use.most);
}

}  // namespace yamata
