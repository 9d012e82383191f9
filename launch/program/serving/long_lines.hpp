#pragma once
// Lines whose reading takes long, read by a thread: meanwhile texts go on, and the engine says that it lives.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "launch/program/serving/line_reader.hpp"

namespace yamata {

class LongLines {
 public:
  /// The reader outlives it. `on_read` is called by the thread when a line is read.
  LongLines(LineReader& reader, std::function<void()> on_read);
  /// Gives up.
  ~LongLines();
  LongLines(const LongLines&) = delete;
  LongLines& operator=(const LongLines&) = delete;

  void add(std::string line);
  /// The next line that is read, in the order in which they were added.
  std::optional<ReadLine> take();
  /// No further line is read.
  void give_up();
  /// Grows while a line is read.
  std::uint64_t progress() const { return progress_; }

 private:
  struct GaveUp {};
  void read_all();
  void step();

  LineReader& reader_;
  const std::function<void()> on_read_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::deque<ReadLine> read_;
  std::atomic<bool> gives_up_{false};
  std::atomic<std::uint64_t> progress_{0};
  std::thread thread_;
};

}  // namespace yamata
