#include "node/process.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

namespace yamata {
namespace {

/// The beginning of a file in /proc; the size is limited.
std::string first_bytes(const std::string& path) {
  char text[1024];
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t n = ::read(fd, text, sizeof(text));
  ::close(fd);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "";
}

/// Field `number` of /proc/N/stat, counted from 1 as in proc(5), for numbers from 3 on; empty if there is none. The name before these
/// fields may contain spaces and parentheses.
std::string stat_field(pid_t process, int number) {
  const std::string stat = first_bytes("/proc/" + std::to_string(process) + "/stat");
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= number; ++i) fields >> field;
  return fields ? field : "";
}

/// A copy of another process's descriptor, with the same position in its file; -1 if the kernel does not give it.
int share_descriptor(pid_t process, int descriptor) {
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_getfd)
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (handle < 0) return -1;
  const int shared = static_cast<int>(syscall(SYS_pidfd_getfd, handle, descriptor, 0));
  close(handle);
  return shared;
#else
  return -1;
#endif
}

}  // namespace

char process_state(pid_t process) {
  const std::string state = stat_field(process, 3);
  return state.empty() ? '?' : state[0];
}

std::string process_name(pid_t process) {
  std::string name = first_bytes("/proc/" + std::to_string(process) + "/comm");
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

bool process_waits_for_lock(pid_t process) { return first_bytes("/proc/" + std::to_string(process) + "/wchan").starts_with("futex"); }

pid_t process_parent(pid_t process) { return std::atoi(stat_field(process, 4).c_str()); }

std::uint64_t process_start(pid_t process) { return std::strtoull(stat_field(process, 22).c_str(), nullptr, 10); }

int open_output(pid_t process, int descriptor) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  struct stat output {};
  if (stat(path.c_str(), &output) == 0 && S_ISREG(output.st_mode)) {
    if (const int shared = share_descriptor(process, descriptor); shared >= 0) return shared;
  }
  return open(path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK);
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_mpirun(const std::string& name) {
  constexpr std::array<const char*, 4> kNames{"mpirun", "mpiexec", "orterun", "prterun"};
  return std::ranges::any_of(kNames, [&](const char* known) { return name.starts_with(known); });
}

bool is_mpirun_daemon(const std::string& name) { return name == "orted"; }

}  // namespace yamata
