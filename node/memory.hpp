#pragma once
// Memory allocated in pages.
#include <cstddef>
#include <span>
#include <vector>

namespace yamata {

/// Zeroed memory, whose pages are allocated when first touched.
class PageMemory {
 public:
  enum class Pages {
    kHuge,   ///< huge pages, if there are any
    kSmall,  ///< the system's default pages
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

/// Interleaves the untouched pages of `memory`, which begins at a page boundary, over these NUMA nodes. For data that threads on all of
/// them read. False if the system does not support it.
bool interleave(std::span<std::byte> memory, const std::vector<int>& nodes);

/// Writes a zero to every page of `memory`, so that all of it is allocated. For memory in which nothing is stored yet.
void touch_pages(std::span<std::byte> memory);

}  // namespace yamata
