#include "launch/program/output/standard_output.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "launch/program/output/launcher_output.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr std::size_t kBuffer = 64 << 10;

struct Written {
  LauncherOutput passed_on;
  std::uint64_t bytes = 0;
  std::string buffer;
  bool failed = false;
  ~Written() { flush(); }

  void flush() {
    const std::string text = std::exchange(buffer, {});
    for (std::string_view left = text; !left.empty() && !failed;) {
      const ssize_t count = write(STDOUT_FILENO, left.data(), left.size());
      if (count >= 0) {
        left.remove_prefix(static_cast<std::size_t>(count));
      } else if (errno == EAGAIN) {  // whoever shares this pipe or terminal has made it non-blocking
        pollfd room{STDOUT_FILENO, POLLOUT, 0};
        poll(&room, 1, -1);
      } else if (errno != EINTR) {
        failed = true;
      }
    }
  }
};

Written& written() {
  static Written written;
  return written;
}

}  // namespace

void print_out(std::string_view text) {
  Written& before = written();  // constructed first, to know the launcher's position before the text is written
  before.bytes += text.size();
  before.buffer += text;
  if (before.buffer.size() >= kBuffer) before.flush();
}

void flush_out() { written().flush(); }

void print_error(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

bool is_standard_output(const std::string& path) {
  struct stat its {
  }, own{};
  if (stat(path.c_str(), &its) != 0 || !S_ISREG(its.st_mode)) return false;
  const bool same = fstat(STDOUT_FILENO, &own) == 0 && its.st_dev == own.st_dev && its.st_ino == own.st_ino;
  return same || written().passed_on.goes_to(path);
}

void require_standard_output() {
  flush_out();
  if (written().failed || written().passed_on.loses(written().bytes))
    throw ModelError("cannot write to standard output; is it closed, its disk full, or ulimit -f too low?");
}

}  // namespace yamata
