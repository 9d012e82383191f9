#include "launch/program/serving/output_lines.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <string_view>
#include <utility>

namespace yamata {
namespace {

constexpr std::chrono::milliseconds kRepeatAfter{500};
constexpr std::chrono::milliseconds kLongestEnd{1000};

}  // namespace

OutputLines::OutputLines(int file, std::function<void()> on_lost) : file_(file), on_lost_(std::move(on_lost)) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves must not end the job at an arbitrary point
  thread_ = std::thread([this] { write_all(); });
}

OutputLines::~OutputLines() {
  {
    std::unique_lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kLongestEnd, [this] { return lines_.empty() || lost_; });
    gives_up_ = true;
  }
  thread_.join();
}

bool OutputLines::full() const {
  constexpr std::size_t kFar = 16 << 20;
  const std::lock_guard lock(mutex_);
  return behind_ > kFar;
}

void OutputLines::say(std::string line) {
  line += '\n';
  const std::lock_guard lock(mutex_);
  if (lost_) return;
  behind_ += line.size();
  lines_.push_back(std::move(line));
  changed_.notify_all();
}

void OutputLines::repeat(std::function<JsonLine()> message) {
  const std::lock_guard lock(mutex_);
  repeated_ = std::move(message);
  changed_.notify_all();
}

void OutputLines::lose() {
  const std::lock_guard lock(mutex_);
  lost_ = true;
  lines_.clear();
  behind_ = 0;
  changed_.notify_all();
}

void OutputLines::write_all() {
  std::unique_lock lock(mutex_);
  while (!lost_) {
    const auto busy = [this] { return ends_ || !lines_.empty(); };
    if (!repeated_) {
      changed_.wait(lock, [&] { return busy() || repeated_; });
    } else if (!changed_.wait_for(lock, kRepeatAfter, busy) && repeated_) {
      lines_.push_back(repeated_().dump() + '\n');
      behind_ += lines_.back().size();
    }
    if (lines_.empty()) {
      if (ends_) return;
      continue;
    }
    const std::string line = std::move(lines_.front());
    const bool too_far = behind_ > kMostBehind;
    lock.unlock();
    const bool written = !too_far && write_line(line);
    if (!written) {
      lose();
      return on_lost_();
    }
    lock.lock();
    behind_ -= line.size();
    lines_.pop_front();
    changed_.notify_all();
  }
}

/// Never blocks for long: a pipe with room takes PIPE_BUF bytes at once.
bool OutputLines::write_line(const std::string& line) {
  for (std::string_view left = line; !left.empty();) {
    pollfd room{file_, POLLOUT, 0};
    if (poll(&room, 1, 100) <= 0 || !(room.revents & POLLOUT)) {
      if (gives_up_ || (room.revents & (POLLERR | POLLHUP | POLLNVAL))) return false;
      const std::lock_guard lock(mutex_);
      if (behind_ > kMostBehind) return false;
      continue;
    }
    const ssize_t count = write(file_, left.data(), std::min<std::size_t>(left.size(), PIPE_BUF));
    if (count >= 0)
      left.remove_prefix(static_cast<std::size_t>(count));
    else if (errno != EINTR && errno != EAGAIN)
      return false;
  }
  return true;
}

}  // namespace yamata
