#pragma once
// Floats in a compute unit's memory.
#include <cstddef>
#include <memory>

#include "node/buffer.hpp"
#include "node/compute_unit.hpp"

namespace yamata {

/// Floats in a unit's memory, as many as the largest demand so far.
class FloatBuffer {
 public:
  explicit FloatBuffer(ComputeUnit& unit, BufferUse use = BufferUse::kActivations) : unit_(unit), use_(use) {}
  /// Grows to at least this many floats; growing loses the contents. Throws std::bad_alloc.
  void reserve(std::size_t floats);
  float* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  ComputeUnit& unit_;
  BufferUse use_;
  std::unique_ptr<Buffer> buffer_;
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace yamata
