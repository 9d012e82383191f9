#include "node/compute_unit.hpp"

#include <vector>

#include "node/memory.hpp"

namespace yamata {
namespace {

/// Memory of whole pages, which become resident when they are written.
class PageBuffer final : public Buffer {
 public:
  PageBuffer(std::size_t bytes, PageMemory::Pages pages) : memory_(bytes, pages) {}
  std::span<std::byte> host() override { return {memory_.data(), memory_.size()}; }

 private:
  PageMemory memory_;
};

/// Small buffers are on the heap: if each began at a page boundary, they would compete for the same sets of the L1 cache.
class HeapBuffer final : public Buffer {
 public:
  explicit HeapBuffer(std::size_t bytes) : bytes_(bytes) {}
  std::span<std::byte> host() override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::unique_ptr<Buffer> ComputeUnit::allocate(std::size_t bytes, BufferUse use) {
  if (use == BufferUse::kWeights || use == BufferUse::kCopiedWeights) return std::make_unique<PageBuffer>(bytes, PageMemory::Pages::kHuge);
  if (use == BufferUse::kCache) return std::make_unique<PageBuffer>(bytes, PageMemory::Pages::kSmall);
  return std::make_unique<HeapBuffer>(bytes);
}

void ComputeUnit::start_parts(std::span<const Op> ops, std::span<const ListPart>, const std::atomic<bool>* stop) { start(ops, stop); }

}  // namespace yamata
