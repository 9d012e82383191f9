#include "launch/process_state.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

namespace yamata {
namespace {

/// The beginning of a file of the system's; no more than a process may read between two stops.
std::string first_bytes(const std::string& path) {
  char text[512];
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t n = ::read(fd, text, sizeof(text));
  ::close(fd);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "";
}

}  // namespace

char process_state(pid_t process) {
  const std::string stat = first_bytes(fmt::format("/proc/{}/stat", process));
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat.size() ? stat[name_end + 2] : '?';
}

std::string process_name(pid_t process) {
  std::string name = first_bytes(fmt::format("/proc/{}/comm", process));
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

}  // namespace yamata
