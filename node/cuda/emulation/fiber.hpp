#pragma once
// A function with its own stack that runs until it yields. Sanitizers are notified of every switch.
#include <cstddef>
#include <memory>

namespace yamata::simt {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(Fiber&&) = delete;

  /// Prepares it to run body(argument) from the beginning; a previous run is abandoned.
  void begin(void (*body)(void*), void* argument);
  /// Runs it until it yields or ends.
  void resume();
  /// Returns to the resumer. Called by the fiber itself.
  void yield();
  bool ended() const { return ended_; }

 private:
  void switch_back(bool for_good);

  static constexpr std::size_t kStackBytes = 256 << 10;  // sanitized frames are several times as large
  // Stacks begin at different places of their pages: else the same frame of all fibers is in the same few lines of the caches.
  static constexpr std::size_t kShift = 17 * 64, kShifts = 64;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* stack_;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool ended_ = true;
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace yamata::simt
