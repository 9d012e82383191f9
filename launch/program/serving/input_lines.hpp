#pragma once
// Lines that arrive on standard input, read by a thread.
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace yamata {

/// A longer line than kMostBytes comes as its first kMostBytes + 1.
class InputLines {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  /// Reads `file` from now on. `on_arrival` is called by the thread after lines, or the end, have arrived.
  InputLines(int file, std::function<void()> on_arrival);
  ~InputLines();
  InputLines(const InputLines&) = delete;
  InputLines& operator=(const InputLines&) = delete;

  /// The next line, without its end.
  std::optional<std::string> take();
  /// No further line comes; those that have arrived may still be taken.
  bool ended() const { return ended_; }

 private:
  void read_all();
  void add(std::string_view bytes);

  const int file_;
  const std::function<void()> on_arrival_;
  int wake_[2]{-1, -1};  // a pipe that ends the thread's wait
  std::mutex mutex_;
  std::deque<std::string> lines_;
  std::string unfinished_;  // of the thread
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace yamata
