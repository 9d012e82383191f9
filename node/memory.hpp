#pragma once
// Memory by the page.
#include <cstddef>
#include <span>
#include <vector>

namespace yamata {

/// Zeros that are brought in when first touched.
class PageMemory {
 public:
  enum class Pages {
    kHuge,   ///< where there are any
    kSmall,  ///< as the system has them
  };
  PageMemory() = default;
  /// Throws std::bad_alloc.
  explicit PageMemory(std::size_t bytes, Pages pages = Pages::kHuge);
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Pages of `memory` not yet touched, which begins with one, come to lie in these NUMA nodes in turn: for what threads near all of
/// them read. False where the system has no say in it.
bool interleave(std::span<std::byte> memory, const std::vector<int>& nodes);

}  // namespace yamata
