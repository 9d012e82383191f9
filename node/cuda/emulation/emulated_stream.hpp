#pragma once
// A stream of the emulated device: a thread that executes work in order.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace yamata::cuda {

/// From any thread. After an error, all later calls throw it, and later work is not executed, as with CUDA.
class EmulatedStream {
 public:
  /// `late`: work is executed only when somebody waits for it.
  explicit EmulatedStream(bool late = false);
  /// Waits until all work is done.
  ~EmulatedStream();
  EmulatedStream(EmulatedStream&&) = delete;

  void put(std::function<void()> work);
  /// Number of items of work so far.
  std::uint64_t end();
  /// Waits until so many are done.
  void wait(std::uint64_t end);
  void require_well();

 private:
  void run();

  const bool late_;
  std::mutex mutex_;
  std::condition_variable added_, done_;
  std::deque<std::function<void()>> work_;
  std::uint64_t added_count_ = 0, done_count_ = 0, awaited_count_ = 0;
  std::exception_ptr failed_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace yamata::cuda
