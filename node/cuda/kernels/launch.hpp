#pragma once
// A launch of a kernel, for streams and graphs. Valid as C++17, for CUDA 11.4.
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace yamata::simt {

/// Number of thread blocks.
struct Grid {
  unsigned x = 1, y = 1;
};

/// One kernel, its shape and its one parameter.
struct Launch {
  static constexpr std::size_t kMaxArgumentBytes = 320;

  const void* kernel = nullptr;          ///< the function that CUDA's runtime, or the emulated device, is given
  void (*run)(const Launch&) = nullptr;  ///< for the emulated device: runs the kernel on this thread
  const char* what = "a kernel";         ///< for errors
  Grid grid;
  unsigned threads = 0;
  std::size_t shared_bytes = 0, argument_bytes = 0;
  alignas(16) std::byte arguments[kMaxArgumentBytes];

  template <class Arguments>
  void set(const Arguments& all) {
    static_assert(std::is_trivially_copyable<Arguments>::value && sizeof(Arguments) <= kMaxArgumentBytes, "a parameter of a kernel");
    std::memcpy(arguments, &all, sizeof all);
    argument_bytes = sizeof all;
  }
  /// Whether it is the same kernel with the same shape and parameter.
  bool operator==(const Launch& other) const {
    return kernel == other.kernel && grid.x == other.grid.x && grid.y == other.grid.y && threads == other.threads &&
           shared_bytes == other.shared_bytes && argument_bytes == other.argument_bytes &&
           std::memcmp(arguments, other.arguments, argument_bytes) == 0;
  }
};

/// Where launches go: a stream, or a list that becomes a graph.
class LaunchSink {
 public:
  virtual ~LaunchSink() = default;
  virtual void put(const Launch& launch) = 0;
};

}  // namespace yamata::simt
