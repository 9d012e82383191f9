#pragma once
// A stream of the emulated device: a thread that does what is put into it, in order.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace yamata::cuda {

/// From any thread. What fails is thrown to all who ask from then on, as a card does; what comes after it is not done.
class EmulatedStream {
 public:
  EmulatedStream();
  /// When all has been done.
  ~EmulatedStream();
  EmulatedStream(EmulatedStream&&) = delete;

  void put(std::function<void()> work);
  /// How much has been put into it.
  std::uint64_t end();
  /// Until so much has been done.
  void wait(std::uint64_t end);
  void require_well();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable added_, done_;
  std::deque<std::function<void()>> work_;
  std::uint64_t added_count_ = 0, done_count_ = 0;
  std::exception_ptr failed_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace yamata::cuda
