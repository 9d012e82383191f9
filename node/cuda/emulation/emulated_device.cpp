#include "node/cuda/emulation/emulated_device.hpp"

#include <cstring>
#include <new>

#include "node/error.hpp"
#include "node/memory.hpp"

namespace yamata::cuda {
namespace {

class PagesBuffer final : public DeviceBuffer {
 public:
  PagesBuffer(std::size_t bytes, std::shared_ptr<std::atomic<std::uint64_t>> used)
      : memory_(bytes, PageMemory::Pages::kSmall), used_(std::move(used)) {}
  ~PagesBuffer() override { used_->fetch_sub(memory_.size()); }
  std::byte* data() const override { return memory_.data(); }
  std::size_t size() const override { return memory_.size(); }

 private:
  PageMemory memory_;
  std::shared_ptr<std::atomic<std::uint64_t>> used_;
};

}  // namespace

EmulatedDevice::EmulatedDevice(EmulatedDeviceOptions options) : options_(options), used_(std::make_shared<std::atomic<std::uint64_t>>(0)) {
  properties_ = {"emulated device", options.unified, options.unified, options.memory_bytes, options.memory_bytes};
}

std::unique_ptr<DeviceBuffer> EmulatedDevice::allocate(std::size_t bytes, DeviceMemory) {
  if (used_->fetch_add(bytes) + bytes > options_.memory_bytes) {
    used_->fetch_sub(bytes);
    throw std::bad_alloc();
  }
  try {
    return std::make_unique<PagesBuffer>(bytes, used_);
  } catch (const std::bad_alloc&) {
    used_->fetch_sub(bytes);
    throw;
  }
}

void EmulatedDevice::copy_in(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

void EmulatedDevice::check(const char* what) {
  if (options_.fails_at > 0 && ++launches_ >= options_.fails_at)
    throw ClusterError(std::string("device ") + id() + ": " + what + " failed; run with --units cpu, or see whether it is well");
}

}  // namespace yamata::cuda
