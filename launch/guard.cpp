#include "launch/guard.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "mpi/mpi_session.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};

/// "yamata-guard" in process lists, instead of the rank's whole command line.
void rename_process(int argc, char** argv) {
  prctl(PR_SET_NAME, "yamata-guard");
  const std::size_t room = static_cast<std::size_t>(argv[argc - 1] - argv[0]) + std::strlen(argv[argc - 1]);
  std::memset(argv[0], 0, room);
  std::strncpy(argv[0], "yamata-guard", room);
}

/// Seen by the rank and its guard.
std::atomic<bool>* dispensable = nullptr;

/// In the place of a rank that the others do without: a launcher ends the job where a process of it ends.
[[noreturn]] void keep_place(pid_t launcher, const sigset_t& awaited) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (int signal = 0; getppid() == launcher && signal != SIGTERM && signal != SIGINT && signal != SIGHUP && signal != SIGQUIT;) {
    sigwait(&awaited, &signal);
  }
  _exit(static_cast<int>(ExitCode::kCluster));
}

std::string host_name() {
  char name[256] = "unknown host";
  gethostname(name, sizeof(name) - 1);
  return name;
}

void tell_of(int signal) {
  // A launcher that ends a job sends SIGTERM, then SIGKILL, to this process too: what else the rank dies of is news.
  fmt::print(stderr, "yamata: rank {} ({}) was killed by signal {} ({}){}\n", mpi_rank_from_environment(), host_name(), signal,
             strsignal(signal), signal == SIGKILL ? "; was its machine out of memory?" : "");
  std::fflush(stderr);
}

/// The parent's life.
[[noreturn]] void stand_guard(pid_t launcher, pid_t rank, const sigset_t& awaited) {
  while (true) {
    int signal = 0;
    sigwait(&awaited, &signal);
    if (signal != SIGCHLD) {
      kill(rank, signal);
      continue;
    }
    int status = 0;
    if (waitpid(rank, &status, WNOHANG) != rank) continue;
    if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
    tell_of(WTERMSIG(status));
    if (dispensable && *dispensable) keep_place(launcher, awaited);
    _exit(static_cast<int>(ExitCode::kCluster));
  }
}

/// 'T' while the process is stopped.
char process_state(pid_t pid) {
  char text[512] = "";
  const int fd = ::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return '?';
  const ssize_t n = ::read(fd, text, sizeof(text) - 1);
  ::close(fd);
  const char* after_name = n > 0 ? std::strrchr(text, ')') : nullptr;
  return after_name && after_name[1] == ' ' ? after_name[2] : '?';
}

/// SIGSTOP cannot be passed on by a process it stops: the rank looks for itself. SIGCONT is passed on.
void follow_stops(pid_t guard) {
  std::thread([guard] {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      if (process_state(guard) == 'T') raise(SIGSTOP);
    }
  }).detach();
}

}  // namespace

void guard_rank(int argc, char** argv) {
  if (!launched_by_mpi()) return;
  sigset_t awaited, before;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  for (const int signal : kForwarded) sigaddset(&awaited, signal);
  sigprocmask(SIG_BLOCK, &awaited, &before);

  void* shared = mmap(nullptr, sizeof(*dispensable), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) dispensable = new (shared) std::atomic<bool>(false);
  const pid_t launcher = getppid(), guard = getpid();
  const pid_t rank = fork();
  if (rank < 0) {  // no room for another process: the rank goes on without a guard
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return;
  }
  if (rank > 0) {
    rename_process(argc, argv);
    stand_guard(launcher, rank, awaited);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guard) _exit(static_cast<int>(ExitCode::kCluster));
  sigprocmask(SIG_SETMASK, &before, nullptr);
  follow_stops(guard);
}

void let_job_survive_this_rank(bool survive) {
  if (dispensable) *dispensable = survive;
}

}  // namespace yamata
