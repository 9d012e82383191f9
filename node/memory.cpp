#include "node/memory.hpp"

#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>

#include <memory>
#include <new>
#include <utility>

namespace yamata {

PageMemory::PageMemory(std::size_t bytes, Pages pages) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(memory);
  if (pages == Pages::kHuge) madvise(data_, bytes, MADV_HUGEPAGE);  // a hint: small pages also work, but slower
}

PageMemory::~PageMemory() {
  if (data_) munmap(data_, bytes_);
}

PageMemory::PageMemory(PageMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

bool interleave(std::span<std::byte> memory, const std::vector<int>& nodes) {
  if (numa_available() < 0) return false;
  const std::unique_ptr<bitmask, decltype(&numa_bitmask_free)> mask(numa_allocate_nodemask(), numa_bitmask_free);
  for (const int node : nodes) numa_bitmask_setbit(mask.get(), static_cast<unsigned>(node));
  return mbind(memory.data(), memory.size(), MPOL_INTERLEAVE, mask->maskp, mask->size + 1, 0) == 0;
}

void touch_pages(std::span<std::byte> memory) {
  constexpr std::size_t kPage = 4096;
  volatile std::byte* bytes = memory.data();
  for (std::size_t at = 0; at < memory.size(); at += kPage) bytes[at] = std::byte{0};
}

}  // namespace yamata
