#pragma once
// Memory that belongs to a compute unit.
#include <cstddef>
#include <memory>
#include <span>

namespace yamata {

/// The use of a buffer, by which a unit decides where to allocate it.
enum class BufferUse {
  kActivations,    ///< written and read by every run, also by the host and by other units
  kIntermediate,   ///< likewise, by the unit's own operations only
  kWeights,        ///< packed weights: large, written once
  kCopiedWeights,  ///< likewise, but a device has them only while it needs them: they are copied to it for each list of operations
  kCache,          ///< keys and values: large, filled slowly, read by all of the unit's threads; pages are allocated when they are written
};

/// The use of a buffer of a unit that is made of units: each of them works on the others' intermediate results.
constexpr BufferUse shared(BufferUse use) { return use == BufferUse::kIntermediate ? BufferUse::kActivations : use; }

class Buffer {
 public:
  virtual ~Buffer() = default;
  /// The host's view of it.
  virtual std::span<std::byte> host() = 0;
};

}  // namespace yamata
