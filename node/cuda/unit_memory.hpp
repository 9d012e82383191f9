#pragma once
// The memory of a device's unit: what it gives out, what kernels need beside it, and by which address the device knows what the host names.
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "node/buffer.hpp"
#include "node/cuda/launcher.hpp"

namespace yamata::cuda {

/// Memory that operations use one after the other, each kind as large as the largest has needed.
enum class Scratch { kQuantized, kPanels, kSource, kPartials, kOwnSlice, kSlices, kWhole, kKept, kCount };

class UnitMemory {
 public:
  explicit UnitMemory(Launcher& launcher) : launcher_(launcher), device_(launcher.device()), owned_(all_owned()) {}

  /// Zeros; see BufferUse. From any thread. Throws std::bad_alloc.
  std::unique_ptr<Buffer> allocate(std::size_t bytes, BufferUse use);

  /// Before a list of operations, when the last one's kernels have ended.
  void begin();
  /// A copy for kernels of this list, in mapped memory.
  template <class T>
  T* put(std::span<const T> values) {
    T* copy = reinterpret_cast<T*>(arguments(values.size_bytes()));
    if (!values.empty()) std::memcpy(copy, values.data(), values.size_bytes());
    return copy;
  }
  /// Mapped memory for this list, not zeros.
  std::byte* arguments(std::size_t bytes);
  /// Memory of the device; what was in it is lost where it must grow.
  std::byte* scratch(Scratch use, std::size_t bytes);
  /// The same, mapped.
  std::byte* mapped_scratch(Scratch use, std::size_t bytes);

  /// For this list: these bytes of the host are read by nobody but the device, which has memory of its own in their place.
  void keep(const void* host, std::size_t bytes);

  /// These bytes will not change while the unit lives: where the device cannot read them, it keeps copies of what it uses of them.
  void constant(std::span<const std::byte> bytes);
  /// What the device knows `count` values of the host by.
  template <class T>
  T* at(T* host, std::size_t count) {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return reinterpret_cast<T*>(const_cast<Byte*>(address(reinterpret_cast<const std::byte*>(host), count * sizeof(T))));
  }

 private:
  /// What the devices of this process have given out, each of which all devices know by the same address: [begin, end).
  struct Owned {
    std::mutex mutex;
    std::map<const std::byte*, const std::byte*> ranges;
  };
  class UnitBuffer;
  static std::shared_ptr<Owned> all_owned();
  const std::byte* address(const std::byte* host, std::size_t bytes);
  std::byte* grown(std::unique_ptr<DeviceBuffer>& buffer, std::size_t bytes, DeviceMemory memory);
  static bool contains(const std::map<const std::byte*, const std::byte*>& ranges, const std::byte* begin, std::size_t bytes);

  Launcher& launcher_;
  Device& device_;
  std::shared_ptr<Owned> owned_;
  std::array<std::unique_ptr<DeviceBuffer>, static_cast<std::size_t>(Scratch::kCount)> scratch_;
  std::vector<std::unique_ptr<DeviceBuffer>> arguments_;  // the first `in_use_` are, the last of them up to `filled_`
  std::size_t in_use_ = 0, filled_ = 0;
  std::span<const std::byte> kept_;                         // of the host
  std::map<const std::byte*, const std::byte*> constants_;  // [begin, end)
  std::map<std::pair<const std::byte*, std::size_t>, std::unique_ptr<DeviceBuffer>> copies_;
};

}  // namespace yamata::cuda
