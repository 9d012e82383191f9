#include "launch/program/guard/launcher_end.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "mpi/cluster/leftovers.hpp"
#include "mpi/cluster/mpirun.hpp"
#include "node/process.hpp"

namespace yamata {
namespace {

using namespace std::chrono_literals;

/// mpirun needs two seconds to end a job normally: one before SIGTERM and one before SIGKILL.
constexpr auto kOrderly = 2500ms, kSecond = 1000ms, kLook = 50ms, kLongest = 60000ms;
/// If a daemon was stopped while its rank ended, the rank's guard continues it at the deadline; after that the rank still has to end.
constexpr auto kAfterWaking = 3000ms;

class Launcher {
 public:
  Launcher(pid_t process, const Mpirun& mpirun) : process_(process), name_(process_name(process)), mpirun_(mpirun) {}

  /// True when mpirun and the process that started this rank have both ended, as far as that is known.
  bool ends_within(std::chrono::milliseconds limit) const {
    for (auto waited = 0ms, look = kLook;; waited += look) {
      if (!parent_runs() && (mpirun_.is_parent() || mpirun_.ask() != Mpirun::Answer::kRuns)) return true;
      if (waited >= limit) return false;
      look = std::clamp(waited / 8, kLook, kSecond);
      std::this_thread::sleep_for(look);
    }
  }
  /// A suspended mpirun still has to read what its daemons have for it. Looks rarely, because it has to take every connection when it
  /// continues.
  void wait_while_suspended() const {
    for (auto pause = kSecond; is_daemon() && mpirun_.ask() == Mpirun::Answer::kRuns && !mpirun_.responds();
         pause = std::min(2 * pause, kLongest))
      std::this_thread::sleep_for(pause);
  }
  /// Continues a daemon of mpirun that is stopped; false if there is none.
  bool wakes_daemon() const { return is_daemon() && process_state(process_) == 'T' && kill(process_, SIGCONT) == 0; }
  /// False for a script between the launcher and this rank, which may have more to do.
  bool is_mpiruns() const { return is_mpirun(name_) || is_mpirun_daemon(name_); }
  /// A daemon that mpirun cannot reach. If mpirun is reachable but does not end, it may be suspended, or have output for a slow reader.
  bool is_cut_off() const { return is_daemon() && mpirun_.ask() != Mpirun::Answer::kRuns; }
  bool is_daemon() const { return is_mpirun_daemon(name_); }
  /// The mpirun that started this rank waits for a lock and does not act on its connections: PMIx 4.2.2 can deadlock in mpirun's end after
  /// a rank was killed in its first milliseconds. One that is suspended, or that has output for a slow reader, waits for something else.
  bool hangs() const {
    for (int look = 0; look < 2; ++look) {  // each takes a second
      if (!mpirun_.is_parent() || !parent_runs() || !process_waits_for_lock(process_) || mpirun_.responds()) return false;
    }
    return process_waits_for_lock(process_);
  }
  /// True in the first process that asks: of several ranks' processes, one ends mpirun. A name in the abstract namespace is in no folder.
  bool is_claimed() const {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const auto end = fmt::format_to(name.sun_path + 1, "yamata-end-{}", process_);  // the zero byte before it makes the name abstract
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);                   // stays open until this process ends
    return fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&name), static_cast<socklen_t>(end - reinterpret_cast<char*>(&name))) == 0;
  }
  /// Writes a line where mpirun writes its own.
  void say(const std::string& line) const {
    const int fd = open_output(process_, STDERR_FILENO);
    if (fd < 0) return;
    dprintf(fd, "yamata: %s\n", line.c_str());
    close(fd);
  }
  bool release_daemons() const { return mpirun_.release_daemons(); }
  /// A process that gets SIGTERM twice ends at once.
  void end_parent() const {
    for (const int signal : {SIGCONT, SIGTERM, SIGTERM, SIGKILL}) {
      if (!parent_runs()) return;
      kill(process_, signal);
      if (signal != SIGCONT) std::this_thread::sleep_for(kSecond);
    }
  }

 private:
  /// A later process with the same number most likely has another name. A script between the launcher and this rank must not be killed.
  bool parent_runs() const {
    const char state = is_mpiruns() ? process_state(process_) : '?';
    return state != '?' && state != 'Z' && process_name(process_) == name_;
  }

  pid_t process_;
  std::string name_;
  const Mpirun& mpirun_;
};

/// Removes what a launcher that was killed has left; the other ranks and their guards may still be ending.
void clear_while_others_end() {
  for (auto waited = 0ms; session_is_left() && waited < kOrderly; waited += kLook) {
    clear_leftovers();
    std::this_thread::sleep_for(kLook);
  }
}

void see_end(const Launcher& launcher, std::chrono::milliseconds orderly, bool ordered) {
  bool over = launcher.ends_within(orderly);
  if (!over && launcher.wakes_daemon()) over = launcher.ends_within(kSecond);
  if (!over && !ordered) {
    launcher.wait_while_suspended();
    over = launcher.ends_within(kAfterWaking);  // a daemon on another machine may have been continued, too
  }
  for (int attempt = 0; !over && attempt < 3; ++attempt) {
    if (!launcher.release_daemons()) break;
    over = launcher.ends_within(kSecond);
  }
  if (!over && launcher.is_cut_off()) launcher.end_parent();
  if (!over && launcher.hangs() && launcher.is_claimed()) {
    launcher.say("warning: mpirun hangs though the job is over, a fault of its library; it is ended with an exit code of its own");
    launcher.end_parent();
  }
}

/// Returns when the process that has forked this one has ended.
void keep_awake(pid_t parent, const std::atomic<JobEnd>& end) {
  while (getppid() == parent) {
    if (end != JobEnd::kAsked && process_state(parent) == 'T') kill(parent, SIGCONT);
    std::this_thread::sleep_for(kLook);
  }
}

[[noreturn]] void see_both_end(pid_t guard, pid_t process, std::chrono::milliseconds deadline, const std::atomic<JobEnd>& end) {
  const auto mpirun = Mpirun::of_this_process();
  std::optional<Launcher> launcher;  // its name must be read while it lives
  if (mpirun) launcher.emplace(process, *mpirun);
  keep_awake(guard, end);
  const bool ordered = end == JobEnd::kOrdered || end == JobEnd::kAsked;
  if (launcher && (ordered || launcher->is_mpiruns())) see_end(*launcher, ordered ? kOrderly : deadline, ordered);
  clear_while_others_end();
  _exit(0);
}

}  // namespace

void stay_behind(pid_t process, std::chrono::milliseconds deadline, const std::atomic<JobEnd>& end) {
  const pid_t guard = getpid();
  if (fork() != 0) return;
  setsid();  // signals to this rank's process group must not reach this process
  prctl(PR_SET_PDEATHSIG, 0);
  prctl(PR_SET_NAME, "yamata-end");
  closefrom(0);  // a launcher waits until a rank's output is closed
  see_both_end(guard, process, deadline, end);
}

}  // namespace yamata
