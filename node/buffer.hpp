#pragma once
// Memory that belongs to a compute unit.
#include <cstddef>
#include <memory>
#include <span>

namespace yamata {

class ComputeUnit;

/// The use of a buffer, by which a unit decides where to allocate it.
enum class BufferUse {
  kActivations,   ///< written and read by every run, also by the host and by other units
  kIntermediate,  ///< likewise, by the unit's own operations only
  kWeights,       ///< packed weights: large, written once
  kCache,         ///< keys and values: large, filled slowly, read by all of the unit's threads; pages are allocated when they are written
};

/// The use of a buffer of a unit that is made of units: each of them works on the others' intermediate results.
constexpr BufferUse shared(BufferUse use) { return use == BufferUse::kIntermediate ? BufferUse::kActivations : use; }

class Buffer {
 public:
  virtual ~Buffer() = default;
  /// The host's view of it.
  virtual std::span<std::byte> host() = 0;
};

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
