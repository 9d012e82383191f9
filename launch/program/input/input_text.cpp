#include "launch/program/input/input_text.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "node/error.hpp"
#include "node/limits.hpp"

namespace yamata {
namespace {

/// An open file; standard input stays open.
class Input {
 public:
  /// A pipe without a writer would keep open() waiting; with O_NONBLOCK, poll waits for the writer.
  explicit Input(const std::string& path) : fd_(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~Input() {
    if (fd_ > STDIN_FILENO) close(fd_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  int fd() const { return fd_; }
  bool is_folder() const {
    struct stat status {};
    return fd_ >= 0 && fstat(fd_, &status) == 0 && S_ISDIR(status.st_mode);
  }

 private:
  int fd_;
};

}  // namespace

bool read_all(int fd, std::size_t most, std::string& text, const std::function<void()>& while_waiting) {
  constexpr int kWaitMs = 250;
  std::array<char, 65536> some;
  while (fd >= 0) {
    pollfd input{fd, POLLIN, 0};
    if (poll(&input, 1, kWaitMs) <= 0) {
      while_waiting();
      continue;
    }
    const ssize_t count = read(fd, some.data(), some.size());
    if (count == 0) return true;
    if (count < 0 && errno != EINTR && errno != EAGAIN) return false;
    const auto more = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    errno = EFBIG;
    if (more > most - text.size()) return false;
    text.append(some.data(), more);
  }
  return false;
}

std::string read_text(const std::string& path, const InputFlag& flag, const std::function<void()>& while_waiting) {
  const Input input(path);
  const std::string shown = path == "-" ? "standard input" : path;
  if (input.is_folder()) throw ModelError(fmt::format("{} is a folder, not a text; check {}", path, flag.name));
  std::string text;
  try {
    const bool read = read_all(input.fd(), flag.max_mib << 20, text, while_waiting);
    if (!read && errno == EFBIG)
      throw ModelError(fmt::format("{} is larger than {} MiB, the limit of {}; name a smaller file", shown, flag.max_mib, flag.name));
    if (!read) throw ModelError(fmt::format("cannot read {}: {}; check {}", shown, std::strerror(errno), flag.name));
  } catch (const std::bad_alloc&) {
    throw ModelError(fmt::format("no memory to read {}; name a smaller file with {}{}", shown, flag.name, or_raise_memory_limit()));
  }
  while_waiting();  // an interrupt may also have ended the program that writes
  return text;
}

}  // namespace yamata
