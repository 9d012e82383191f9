#pragma once
// The memory of a device's unit: buffers, scratch memory of kernels, and device addresses for host addresses.
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "node/buffer.hpp"
#include "node/cuda/device/launcher.hpp"

namespace yamata::cuda {

/// Kinds of scratch memory. Operations use it one after another; it has the size that the largest one needed.
enum class Scratch { kQuantized, kPanels, kSource, kPartials, kOwnSlice, kSlices, kWhole, kScores, kKept, kCount };

class UnitMemory {
 public:
  explicit UnitMemory(Launcher& launcher) : launcher_(launcher), device_(launcher.device()), owned_(all_owned()) {}

  /// Filled with zeros; see BufferUse. From any thread. Throws std::bad_alloc.
  std::unique_ptr<Buffer> allocate(std::size_t bytes, BufferUse use);

  /// Begins a list of operations; the kernels of the previous one must have ended.
  void begin();
  /// Copies values into mapped memory for kernels of this list.
  template <class T>
  T* put(std::span<const T> values) {
    T* copy = reinterpret_cast<T*>(arguments(values.size_bytes()));
    if (!values.empty()) std::memcpy(copy, values.data(), values.size_bytes());
    return copy;
  }
  /// Mapped memory for this list, not initialized.
  std::byte* arguments(std::size_t bytes);
  /// Copies values into the device's own memory for this list, once for all its operations; they do not change meanwhile.
  template <class T>
  const T* once(std::span<const T> values) {
    const void*& sent = sent_[{values.data(), values.size_bytes()}];
    if (!sent) sent = own(put(values), values.size());
    return static_cast<const T*>(sent);
  }
  /// Copies arguments() into the device's own memory, if it has any.
  template <class T>
  const T* own(const T* arguments, std::size_t count) {
    static_assert(sizeof(T) % sizeof(float) == 0);
    return reinterpret_cast<const T*>(own_arguments(reinterpret_cast<const std::byte*>(arguments), count * sizeof(T)));
  }
  /// Copies values into the device's own memory, where they stay for later lists that need the same values.
  template <class T>
  const T* kept_values(std::span<const T> values) {
    return reinterpret_cast<const T*>(kept_bytes({reinterpret_cast<const char*>(values.data()), values.size_bytes()}));
  }
  /// Memory of the device. Growing loses its contents.
  std::byte* scratch(Scratch use, std::size_t bytes);
  /// The same, mapped.
  std::byte* mapped_scratch(Scratch use, std::size_t bytes);

  /// For this list: only the device uses these bytes of the host, so memory of the device replaces them.
  void keep(const void* host, std::size_t bytes);

  /// The buffer of BufferUse::kCopiedWeights that contains this byte; empty: none.
  std::span<const std::byte> copied_weights(const std::byte* at) const;

  /// These bytes do not change during the lifetime of the unit. If the device cannot read them, it keeps copies of the parts it uses.
  void constant(std::span<const std::byte> bytes);
  /// The device address of `count` values of the host.
  template <class T>
  T* at(T* host, std::size_t count) {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return reinterpret_cast<T*>(const_cast<Byte*>(address(reinterpret_cast<const std::byte*>(host), count * sizeof(T))));
  }

 private:
  /// Buffers, as [begin, end). From any thread.
  struct Owned {
    std::mutex mutex;
    std::map<const std::byte*, const std::byte*> ranges;
  };
  class UnitBuffer;
  static std::shared_ptr<Owned> all_owned();
  const std::byte* address(const std::byte* host, std::size_t bytes);
  const std::byte* own_arguments(const std::byte* arguments, std::size_t bytes);
  const std::byte* kept_bytes(std::string_view bytes);
  std::byte* grown(std::unique_ptr<DeviceBuffer>& buffer, std::size_t bytes, DeviceMemory memory);
  static bool contains(const std::map<const std::byte*, const std::byte*>& ranges, const std::byte* begin, std::size_t bytes);

  Launcher& launcher_;
  Device& device_;
  std::shared_ptr<Owned> owned_;  // the buffers of all devices of this process, with the same address on every device
  std::shared_ptr<Owned> copied_ = std::make_shared<Owned>();  // those of this unit whose weights are copied
  std::array<std::unique_ptr<DeviceBuffer>, static_cast<std::size_t>(Scratch::kCount)> scratch_;
  /// Mapped memory for arguments, and as much of the device's own.
  struct Arguments {
    std::unique_ptr<DeviceBuffer> mapped, own;
  };
  std::vector<Arguments> arguments_;  // the first `in_use_` are used, the last of these up to `filled_`
  std::size_t in_use_ = 0, filled_ = 0;
  std::map<std::pair<const void*, std::size_t>, const void*> sent_;
  std::map<std::string, std::unique_ptr<DeviceBuffer>, std::less<>> kept_values_;
  std::span<const std::byte> kept_;                         // host address
  std::map<const std::byte*, const std::byte*> constants_;  // [begin, end)
  std::map<std::pair<const std::byte*, std::size_t>, std::unique_ptr<DeviceBuffer>> copies_;
};

}  // namespace yamata::cuda
