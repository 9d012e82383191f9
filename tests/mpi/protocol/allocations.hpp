#pragma once
// The size of this thread's allocations.
#include <cstddef>

namespace yamata::test {

/// Observes operator new of this thread during its life; only one at a time.
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
