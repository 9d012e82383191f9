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
  /// A reader that is so far behind is lost.
  static constexpr std::size_t kMostBehind = std::size_t{64} << 20;
  /// Writes to `file` from now on. `on_lost` is called by the thread if nobody reads it any more.
  OutputLines(int file, std::function<void()> on_lost);
  /// Writes what is left, unless that takes longer than a second.
  ~OutputLines();
  OutputLines(const OutputLines&) = delete;
  OutputLines& operator=(const OutputLines&) = delete;

  /// Queues a message. Bytes that are not UTF-8 are replaced.
  void say(const JsonLine& message);
  /// Until this is called with nothing, the thread itself queues this message every half second.
  void repeat(std::function<JsonLine()> message);
  /// Nobody reads it any more.
  bool lost() const { return lost_; }

 private:
  void write_all();
  bool write_line(const std::string& line);
  void lose();

  const int file_;
  const std::function<void()> on_lost_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::function<JsonLine()> repeated_;
  std::size_t behind_ = 0;  // bytes that are queued
  bool ends_ = false;
  std::atomic<bool> lost_{false}, gives_up_{false};
  std::thread thread_;
};

}  // namespace yamata
