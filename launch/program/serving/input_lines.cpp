#include "launch/program/serving/input_lines.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "node/error.hpp"

namespace yamata {

InputLines::InputLines(int file, std::function<void()> on_arrival) : file_(file), on_arrival_(std::move(on_arrival)) {
  if (pipe2(wake_, O_CLOEXEC) != 0) throw ModelError("this process may open no more files; raise ulimit -n");
  thread_ = std::thread([this] { read_all(); });
}

InputLines::~InputLines() {
  close(wake_[1]);
  thread_.join();
  close(wake_[0]);
}

void InputLines::read_all() {
  std::vector<char> buffer(64 << 10);
  pollfd files[2]{{file_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
  while (true) {
    if (poll(files, 2, -1) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (files[1].revents) return;
    const ssize_t count = read(file_, buffer.data(), buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) break;
    add({buffer.data(), static_cast<std::size_t>(count)});
  }
  if (!unfinished_.empty()) add("\n");
  ended_ = true;
  on_arrival_();
}

void InputLines::add(std::string_view bytes) {
  bool arrived = false;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    unfinished_ += part.substr(0, kMostBytes + 1 - unfinished_.size());
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::exchange(unfinished_, {}));
    arrived = true;
  }
  if (arrived) on_arrival_();
}

std::optional<std::string> InputLines::take() {
  const std::lock_guard lock(mutex_);
  if (lines_.empty()) return std::nullopt;
  std::string line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

}  // namespace yamata
