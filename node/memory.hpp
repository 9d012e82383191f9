#pragma once
// Memory by the page.
#include <cstddef>

namespace yamata {

/// Zeros that are brought in when first touched, in huge pages where there are any.
class PageMemory {
 public:
  PageMemory() = default;
  /// Throws std::bad_alloc.
  explicit PageMemory(std::size_t bytes);
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace yamata
