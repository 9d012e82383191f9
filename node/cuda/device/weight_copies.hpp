#pragma once
// Weights that stay in the host's memory, and are copied to the device for each list of operations (offloading).
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "node/cuda/device/unit_memory.hpp"
#include "node/op.hpp"

namespace yamata::cuda {

/// Buffers of BufferUse::kCopiedWeights, one for each layer, in the order in which a list needs them. The device has memory for two: while
/// it computes with one of them, the next one is copied. Used by the unit's thread.
class WeightCopies {
 public:
  WeightCopies(Launcher& launcher, const UnitMemory& memory) : launcher_(launcher), memory_(memory) {}

  /// Begins a list, after the end of the previous one: begins to copy the first two buffers. Throws std::bad_alloc.
  void begin(std::span<const Op> ops);
  /// Before this operation of the list is launched: the stream waits for its weights.
  void before(const Op& op);
  /// Where the device has this byte of copied weights, for the operation of the latest before(); null: it is not one of them.
  const std::byte* of(const std::byte* weights) const;
  /// Bytes that were copied since construction.
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Copied {
    std::span<const std::byte> weights;
    std::uint64_t number = 0;  // of the copy
  };
  std::span<const std::byte> needed_by(const Op& op) const;
  void copy(std::size_t buffer);
  std::byte* slot(std::size_t buffer) const { return slots_[buffer % slots_.size()]->data(); }

  Launcher& launcher_;
  const UnitMemory& memory_;
  std::array<std::unique_ptr<DeviceBuffer>, 2> slots_;
  std::vector<Copied> list_;
  std::optional<std::size_t> current_;
  std::uint64_t bytes_ = 0;
};

}  // namespace yamata::cuda
