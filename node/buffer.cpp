#include "node/buffer.hpp"

#include "node/compute_unit.hpp"
#include "node/memory.hpp"

namespace yamata {
namespace {

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(std::size_t bytes) : memory_(bytes, PageMemory::Pages::kSmall) {}
  std::span<std::byte> host() override { return {memory_.data(), memory_.size()}; }

 private:
  PageMemory memory_;
};

}  // namespace

std::unique_ptr<Buffer> ComputeUnit::allocate(std::size_t bytes, BufferUse) { return std::make_unique<HostBuffer>(bytes); }

void FloatBuffer::reserve(std::size_t floats) {
  if (floats <= size_) return;
  buffer_.reset();  // both at once may be more than there is
  data_ = nullptr, size_ = 0;
  buffer_ = unit_.allocate(floats * sizeof(float), BufferUse::kActivations);
  data_ = reinterpret_cast<float*>(buffer_->host().data());
  size_ = floats;
}

}  // namespace yamata
