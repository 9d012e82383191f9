#include "launch/program/output/launcher_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "node/process.hpp"

namespace yamata {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kBehind = std::chrono::seconds(1);    // on a busy machine
constexpr auto kStalled = std::chrono::seconds(10);  // on a slow file server

/// A process started by mpirun is its child, or the child of the guard.
pid_t find_launcher() {
  pid_t pid = getppid();
  for (int generation = 0; generation < 2 && pid > 1; ++generation) {
    if (is_mpirun(process_name(pid))) return pid;
    pid = process_parent(pid);
  }
  return 0;
}

/// Then no launcher forwards the output.
bool writes_to_a_file() {
  struct stat own {};
  return fstat(STDOUT_FILENO, &own) != 0 || S_ISREG(own.st_mode) || (S_ISCHR(own.st_mode) && !isatty(STDOUT_FILENO));
}

std::string path_of(pid_t launcher) { return fmt::format("/proc/{}/fd/{}", launcher, STDOUT_FILENO); }

/// Whether a process was started without standard output: then the descriptor is free, or of something else, mostly opened for reading.
bool has_no_output(pid_t launcher) {
  std::ifstream info(fmt::format("/proc/{}/fdinfo/{}", launcher, STDOUT_FILENO));
  int flags = 0;
  for (std::string word; info >> word;) {
    if (word == "flags:") info >> std::oct >> flags;
  }
  return (flags & O_ACCMODE) == O_RDONLY;
}

}  // namespace

LauncherOutput::LauncherOutput() : LauncherOutput(writes_to_a_file() ? 0 : find_launcher()) {}

LauncherOutput::LauncherOutput(pid_t launcher) {
  struct stat its {};
  if (launcher == 0 || stat(path_of(launcher).c_str(), &its) != 0) return;
  never_writes_ = has_no_output(launcher) || (S_ISCHR(its.st_mode) && its.st_rdev == makedev(1, 7));  // /dev/full
  if (!never_writes_ && !S_ISREG(its.st_mode)) return;  // for a pipe or a terminal, missing output cannot be detected
  launcher_ = launcher;
  began_ = position();
}

std::uint64_t LauncherOutput::position() const {
  std::ifstream info(fmt::format("/proc/{}/fdinfo/{}", launcher_, STDOUT_FILENO));
  std::string word;
  std::uint64_t position = 0;
  info >> word >> position;  // "pos: N"
  return position;
}

bool LauncherOutput::goes_to(const std::string& path) const {
  std::error_code none;
  return launcher_ != 0 && std::filesystem::equivalent(path, path_of(launcher_), none);
}

/// Whether the file cannot grow.
bool LauncherOutput::is_full() const {
  const std::string path = path_of(launcher_);
  struct stat file {};
  struct statvfs disk {};
  rlimit limit{};
  if (stat(path.c_str(), &file) != 0) return false;
  const std::uint64_t end = std::max(static_cast<std::uint64_t>(file.st_size), position());
  if (prlimit(launcher_, RLIMIT_FSIZE, nullptr, &limit) == 0 && end >= limit.rlim_cur) return true;
  return statvfs(path.c_str(), &disk) == 0 && (geteuid() == 0 ? disk.f_bfree : disk.f_bavail) == 0;
}

bool LauncherOutput::loses(std::uint64_t bytes) const {
  if (launcher_ == 0 || bytes == 0) return false;
  if (never_writes_) return true;
  std::uint64_t written = 0;
  for (auto grew = SteadyClock::now(), stopped = grew; kill(launcher_, 0) == 0;) {
    const std::uint64_t now = position() - began_;
    if (now >= bytes) return false;
    if (now > written) grew = SteadyClock::now();
    if (process_state(launcher_) == 'T') stopped = SteadyClock::now();
    written = std::max(written, now);
    const auto still = SteadyClock::now() - grew;
    if (still > kBehind && is_full()) return true;
    if (still > kBehind && written == 0) return false;  // mpirun's flags send the output elsewhere
    if (SteadyClock::now() - std::max(grew, stopped) > kStalled) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace yamata
