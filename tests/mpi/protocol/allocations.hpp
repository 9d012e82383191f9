#pragma once
// How large the allocations of this thread are.
#include <cstddef>

namespace yamata::test {

/// Watches operator new of this thread while it lives; one at a time.
class AllocationWatch {
 public:
  AllocationWatch();
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;
  /// Bytes of the largest allocation so far.
  std::size_t largest() const;
};

}  // namespace yamata::test
