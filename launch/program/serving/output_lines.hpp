#pragma once
// Lines for standard output, written by a thread, so that a slow reader delays nobody.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "launch/program/serving/json_line.hpp"

namespace yamata {

class OutputLines {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;  ///< of a line
  /// A reader that is so far behind is lost.
  static constexpr std::size_t kMostBehind = std::size_t{128} << 20;
  /// Writes to `file` from now on. `on_lost` is called by the thread if nobody reads it any more.
  OutputLines(int file, std::function<void()> on_lost);
  /// Writes what is left, unless that takes longer than a second.
  ~OutputLines();
  OutputLines(const OutputLines&) = delete;
  OutputLines& operator=(const OutputLines&) = delete;

  /// Queues a line, without its end.
  void say(std::string line);
  /// Until this is called with nothing, the thread itself queues this message every half second.
  void repeat(std::function<JsonLine()> message);
  /// The reader is far behind.
  bool full() const;
  /// Nobody reads it any more.
  bool lost() const { return lost_; }

 private:
  void write_all();
  bool write_line(const std::string& line);
  void lose();

  const int file_;
  const std::function<void()> on_lost_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::function<JsonLine()> repeated_;
  std::size_t behind_ = 0;  // bytes that are queued
  bool ends_ = false;
  std::atomic<bool> lost_{false}, gives_up_{false};
  std::thread thread_;
};

}  // namespace yamata
