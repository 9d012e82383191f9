#include "tests/mpi/protocol/allocations.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

thread_local bool t_watched = false;
thread_local std::size_t t_largest = 0;

void* allocate(std::size_t bytes) noexcept {
  if (t_watched) t_largest = std::max(t_largest, bytes);
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

}  // namespace

// All forms except the aligned ones: sanitizers check that an allocation is freed by the matching form.
void* operator new(std::size_t bytes) {
  if (void* p = allocate(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }

namespace yamata::test {

AllocationWatch::AllocationWatch() {
  t_largest = 0;
  t_watched = true;
}
AllocationWatch::~AllocationWatch() { t_watched = false; }
std::size_t AllocationWatch::largest() const { return t_largest; }

}  // namespace yamata::test
