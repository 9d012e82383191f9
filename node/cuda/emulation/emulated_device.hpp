#pragma once
// A device without a card: kernels run on the host, in the order of the stream, each when it is launched.
#include <atomic>

#include "node/cuda/device.hpp"

namespace yamata::cuda {

struct EmulatedDeviceOptions {
  std::string id = "emulated:0";
  bool unified = true;  ///< else weights are copied to it, as to a card of its own memory
  std::uint64_t memory_bytes = std::uint64_t{1} << 40;
  std::uint64_t fails_at = 0;  ///< this launch fails, counted from 1, and all after it; 0: none
};

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(EmulatedDeviceOptions options = {});

  std::string id() const override { return options_.id; }
  const DeviceProperties& properties() const override { return properties_; }
  const DeviceKernels& kernels() const override { return kEmulatedKernels; }
  Stream stream() override { return nullptr; }
  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, DeviceMemory memory) override;
  void copy_in(void* to, const void* from, std::size_t bytes) override;
  void reach_host(const void*, std::size_t bytes) override { reached_ += bytes; }
  void release_host() override {}
  void check(const char* what) override;
  std::uint64_t mark() override { return ++marks_; }
  void wait(std::uint64_t) override {}
  void synchronize() override {}

  /// Bytes of its memory that are in use.
  std::uint64_t used_bytes() const { return *used_; }
  /// Bytes of the host's, in no memory of a device, that kernels have been given so far: on a card each costs much time.
  std::uint64_t reached_bytes() const { return reached_; }

 private:
  const EmulatedDeviceOptions options_;
  DeviceProperties properties_;
  std::shared_ptr<std::atomic<std::uint64_t>> used_;  // outlived by no buffer
  std::uint64_t launches_ = 0, marks_ = 0, reached_ = 0;
};

}  // namespace yamata::cuda
