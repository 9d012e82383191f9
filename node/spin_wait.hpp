#pragma once
// Waiting for another core: spins as long as this is cheaper than sleeping.
#include <atomic>
#include <cstdint>

namespace yamata {

inline void relax_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Bound threads have a core each, and those they wait for are at most a piece of an operation behind: spinning for some 20 us is cheaper
// than sleeping. Unbound threads may be waiting for the very core they spin on.
inline constexpr int kSpinsBound = 2000, kSpinsUnbound = 50;

/// Waits until `word` differs from `old`; sleeps after this many checks.
inline void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    relax_core();
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

}  // namespace yamata
