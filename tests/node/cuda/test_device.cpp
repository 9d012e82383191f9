#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "node/cuda/emulation/emulated_device.hpp"
#include "tests/node/cuda/scenes.hpp"
#ifdef YAMATA_CUDA
#include "node/cuda/cuda_device.hpp"
#endif

namespace yamata::cuda {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

bool TestDevice::emulated() { return std::getenv("YAMATA_TEST_DEVICE") == nullptr; }

TestDevice::TestDevice() {
#ifdef YAMATA_CUDA
  if (!emulated()) device_ = make_cuda_device(std::getenv("YAMATA_TEST_DEVICE"));
#endif
  if (!device_) device_ = std::make_unique<EmulatedDevice>();
}

TestDevice::~TestDevice() = default;

std::shared_ptr<std::byte> TestDevice::allocate(std::size_t bytes) const {
  if (!emulated()) {
    std::shared_ptr<DeviceBuffer> buffer = device_->allocate(bytes, DeviceMemory::kMapped);
    return {buffer, buffer->data()};
  }
  const std::size_t pages = (bytes + kPage - 1) / kPage * kPage, all = pages + kPage;
  void* memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(static_cast<std::byte*>(memory) + pages, kPage, PROT_NONE) != 0) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory) + pages - bytes, [memory, all](std::byte*) { munmap(memory, all); }};
}

}  // namespace yamata::cuda
