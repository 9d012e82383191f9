#include "launch/program/guard/guard.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "launch/program/guard/daemon_watch.hpp"
#include "launch/program/guard/guard_wait.hpp"
#include "launch/program/guard/launcher_end.hpp"
#include "launch/program/guard/mpi_start.hpp"
#include "launch/program/guard/start_watch.hpp"
#include "launch/program/input/interrupts.hpp"
#include "mpi/cluster/leftovers.hpp"
#include "mpi/transport/mpi_session.hpp"
#include "node/detached_thread.hpp"
#include "node/error.hpp"
#include "node/process.hpp"
#include "node/read_number.hpp"

namespace yamata {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};

/// Process lists then show "yamata-guard" instead of the rank's whole command line.
void rename_process(int argc, char** argv) {
  prctl(PR_SET_NAME, "yamata-guard");
  const std::size_t room = static_cast<std::size_t>(argv[argc - 1] - argv[0]) + std::strlen(argv[argc - 1]);
  std::memset(argv[0], 0, room);
  std::strncpy(argv[0], "yamata-guard", room);
}

/// What a rank tells its guard, in shared memory.
struct SharedState {
  std::atomic<bool> dispensable{false}, unheard{false}, over{false}, orphaned{false};
  std::atomic<bool> leaving{false}, may_leave{false};  // the rank ends as soon as it may
  std::atomic<JobEnd> end{JobEnd::kUnknown};
  std::atomic<Phase> phase{Phase::kStarting};
};
SharedState* shared_state = nullptr;

void say(const std::string& line) {
  std::fputs(fmt::format("yamata: {}\n", line).c_str(), stderr);  // stderr may be closed if the launcher has ended
  std::fflush(stderr);
}

/// How long a guard waits for the link of its machine to return. YAMATA_LINK_RETURN_S: in seconds, for tests.
std::chrono::seconds link_return_time() {
  const char* seconds = std::getenv("YAMATA_LINK_RETURN_S");
  return std::chrono::seconds(seconds ? read_number<int>(seconds).value_or(60) : 60);
}

/// The guard: runs in the parent process.
class Guard {
 public:
  Guard(pid_t launcher, pid_t rank, const sigset_t& awaited, std::chrono::milliseconds deadline)
      : launcher_(launcher),
        rank_(rank),
        awaited_(awaited),
        deadline_(deadline),
        start_(mpi_rank_from_environment(), host_name(), deadline, Clock::now()),
        daemon_(launcher, deadline, Clock::now()) {}

  [[noreturn]] void run() {
    prctl(PR_SET_PDEATHSIG, SIGCHLD);
    while (true) {
      const int signal = next_signal();
      if (signal == 0) {
        check(Clock::now());
      } else if (signal == SIGCHLD) {
        check_launcher(Clock::now());
        let_leave();
        check_rank();
      } else {
        pass_on(signal);
      }
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kCluster = static_cast<int>(ExitCode::kCluster);
  bool starting() const { return shared_state && (shared_state->phase == Phase::kStarting || shared_state->phase == Phase::kAlone); }
  bool is_dispensable() const { return shared_state && shared_state->dispensable; }
  bool rank_is_done() const { return shared_state && shared_state->phase == Phase::kEnding; }
  bool watches_closely() const { return starting() || rank_is_done() || gone_ != Clock::time_point{}; }

  /// 0 if no signal came for a while.
  int next_signal() const {
    const timespec seldom{1, 0}, often{0, 100'000'000};
    return std::max(sigtimedwait(&awaited_, nullptr, watches_closely() ? &often : &seldom), 0);
  }

  /// After the launcher's end, the rank gets half a second to report the reason. mpirun ends the job within two seconds.
  void check_launcher(Clock::time_point now) {
    constexpr auto kSay = std::chrono::milliseconds(500);
    if (getppid() == launcher_) return;
    if (shared_state) shared_state->orphaned = true;
    if (gone_ == Clock::time_point{}) gone_ = now;
    if (rank_ < 0 || now - gone_ >= kSay) end_rank();
  }

  void check(Clock::time_point now) {
    if (starting() && !ending_) {
      if (const std::string complaint = start_.complaint(shared_state->phase, process_state(rank_) == 'T', now); !complaint.empty()) {
        give_up_start(complaint);
      }
    }
    check_launcher(now);
    wake_at_end(now);
    if (rank_ > 0) daemon_.keep_awake(now, rank_is_done());
    const bool unheard = rank_ < 0 || (shared_state && shared_state->unheard);
    if (const auto silence = daemon_.unreachable_for(now, unheard); silence >= deadline_) be_cut_off(silence - deadline_);
  }

  /// This machine has been cut off for `longer` than the deadline. The job may go on without the rank. When the link returns, the daemon of
  /// this machine would report to mpirun that this process has ended, and mpirun would end the job. So the guard stays for
  /// link_return_time().
  void be_cut_off(Clock::duration longer) {
    if (!is_dispensable() || longer >= link_return_time()) end_rank();
    if (rank_ < 0) return;
    kill(rank_, SIGKILL);
    stay_without_rank();
  }

  /// Continues a rank that is stopped after its work is done. Otherwise it would delay the end of all others.
  void wake_at_end(Clock::time_point now) {
    const bool stopped = rank_is_done() && rank_ > 0 && process_state(rank_) == 'T';
    if (!stopped) stopped_.reset();
    if (stopped && !stopped_) stopped_ = now;
    if (stopped && now - *stopped_ >= deadline_) kill(rank_, SIGCONT);
  }

  void pass_on(int signal) {
    if (signal == SIGCONT) start_.hold_back(Clock::now());
    const bool ends = signal != SIGCONT && signal != SIGUSR1 && signal != SIGUSR2;
    ending_ |= ends;
    if (rank_ > 0 && ends && !end_is_watched_) watch_end(JobEnd::kAsked);  // a launcher that sends this kills both processes soon
    if (rank_ > 0) kill(rank_, signal);
    if (rank_ < 0 && ends) _exit(kCluster);
  }

  /// Starts another process that sees to the end, because this guard may be stopped when its rank ends, and would then never continue.
  void let_leave() {
    if (!shared_state || !shared_state->leaving || shared_state->may_leave) return;
    watch_end(JobEnd::kUnknown);
    shared_state->may_leave = true;
  }

  /// From now on, another process sees to the end of the launcher.
  void watch_end(JobEnd how) {
    static std::atomic<JobEnd> unshared{JobEnd::kUnknown};
    std::atomic<JobEnd>& end = shared_state ? shared_state->end : unshared;
    end = how;
    if (!std::exchange(end_is_watched_, true)) stay_behind(launcher_, deadline_, end);
  }

  /// The exit code for a rank that has ended with `code`. If MPI cannot start, it ends the rank at once. The usual cause is a full
  /// temporary folder; the lowest rank that finds one reports it.
  int explained(int code) const {
    if (code == 0 || !starting() || shared_state->leaving) return code;
    const std::string lack = lack_of_space(temporary_folder_of_mpi());
    if (lack.empty() || is_ended_for_lower_rank()) return code;
    say(cannot_start(lack));
    return static_cast<int>(ExitCode::kModel);
  }

  static std::string cannot_start(const std::string& lack) {
    return fmt::format("rank {} ({}) cannot start MPI: {}", mpi_rank_from_environment(), host_name(), lack);
  }

  /// MPI has not started in time. On a full temporary folder it may wait instead of ending the rank.
  [[noreturn]] void give_up_start(const std::string& complaint) {
    const std::string lack = process_state(rank_) == 'T' ? "" : lack_of_space(temporary_folder_of_mpi());
    say(lack.empty() ? complaint : cannot_start(lack));
    if (rank_ > 0) kill(rank_, SIGKILL);
    leave(lack.empty() ? kCluster : static_cast<int>(ExitCode::kModel));
  }

  /// Waits; true if the launcher announces meanwhile that it ends this process.
  bool is_ended_for_lower_rank() const {
    const auto patience = patience_with_lower_ranks(mpi_rank_from_environment(), deadline_).count();
    const timespec limit{patience / 1000, patience % 1000 * 1'000'000};
    sigset_t announcing = awaited_;
    sigdelset(&announcing, SIGCHLD);
    return sigtimedwait(&announcing, nullptr, &limit) > 0;
  }

  void check_rank() {
    int status = 0;
    if (waitpid(rank_ < 0 ? -1 : rank_, &status, WNOHANG) <= 0 || rank_ < 0) return;
    if (!WIFSIGNALED(status)) leave(explained(WEXITSTATUS(status)));
    const int signal = WTERMSIG(status);
    // A launcher that ends a job sends SIGTERM and then SIGKILL to this process, too. If the rank is killed by another signal, that must be
    // reported.
    const bool dispensable = is_dispensable();
    say(fmt::format("{}rank {} ({}) was killed by signal {} ({}){}", dispensable ? "warning: " : "", mpi_rank_from_environment(),
                    host_name(), signal, strsignal(signal), signal == SIGKILL ? "; was its machine out of memory?" : ""));
    if (!dispensable) leave(kCluster);
    stay_without_rank();
  }

  /// The other ranks continue without this one. The guard stays, because a launcher ends the job when one of its processes ends.
  void stay_without_rank() {
    rank_ = -1;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
  }

  [[noreturn]] void end_rank() {
    if (rank_ > 0) kill(rank_, SIGKILL);
    leave(kCluster);
  }

  /// If any rank ends with a nonzero code, launchers end the others.
  [[noreturn]] void leave(int code) {
    const bool over = code != 0 || (shared_state && shared_state->over);
    watch_end(over ? JobEnd::kOrdered : JobEnd::kNormal);
    _exit(code);
  }

  const pid_t launcher_;
  pid_t rank_;  // -1: dead or just killed, and the job continues without it
  const sigset_t awaited_;
  const std::chrono::milliseconds deadline_;
  StartWatch start_;
  DaemonWatch daemon_;
  Clock::time_point gone_{};                  // when the launcher was found to have ended
  std::optional<Clock::time_point> stopped_;  // since when the rank has been stopped at its end
  bool end_is_watched_ = false;
  bool ending_ = false;  // the launcher or the user has asked the job to end
};

pid_t guard_of_this_rank = 0;

/// A stopped guard does not notice the rank's end. So the rank ends only when the guard can no longer stay stopped, or does not answer.
void await_guard() {
  const pid_t guard = guard_of_this_rank;
  if (!shared_state) return;
  shared_state->leaving = true;
  GuardWait wait(guard, GuardWait::Clock::now());
  while (wait.goes_on(getppid(), shared_state->may_leave, GuardWait::Clock::now())) {
    kill(guard, SIGCHLD);
    if (process_state(guard) == 'T') kill(guard, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// A process cannot forward SIGSTOP, because the signal stops it. So the rank checks whether its guard is stopped, and stops, too. SIGCONT
/// is forwarded. A rank whose work is done does not stop: it continues its guard and ends, because the other ranks have left already.
void follow_stops(pid_t guard) {
  guard_of_this_rank = guard;
  std::atexit(await_guard);
  try_detached([guard] {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      if (process_state(guard) == 'T' && !(shared_state && shared_state->phase == Phase::kEnding)) raise(SIGSTOP);
    }
  });
}

}  // namespace

void guard_rank(int argc, char** argv, std::chrono::milliseconds deadline) {
  if (!launched_by_mpi()) return;
  sigset_t awaited, before;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  for (const int signal : kForwarded) {
    if (signal != SIGHUP || !hangup_is_ignored()) sigaddset(&awaited, signal);
  }
  sigprocmask(SIG_BLOCK, &awaited, &before);

  void* memory = mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) shared_state = new (memory) SharedState;
  const pid_t launcher = getppid(), guard = getpid();
  mark_session();
  const pid_t rank = fork();
  if (rank < 0) {  // no other process is possible: the rank continues without a guard
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return;
  }
  if (rank > 0) {
    rename_process(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    clear_leftovers();  // the rank starts at the same time
    Guard(launcher, rank, awaited, deadline).run();
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guard) _exit(static_cast<int>(ExitCode::kCluster));
  sigprocmask(SIG_SETMASK, &before, nullptr);
  signal(SIGPIPE, SIG_IGN);  // the launcher may end first; that is not an error of this rank
  follow_stops(guard);
}

std::string host_name() {
  char name[256] = "unknown host";
  gethostname(name, sizeof(name) - 1);
  return name;
}

void tell_guard(Phase phase) {
  if (shared_state) shared_state->phase = phase;
}

void let_job_survive_this_rank(bool survive) {
  if (!shared_state) return;
  shared_state->dispensable = survive;
  if (!survive) shared_state->unheard = false;
}

const std::atomic<bool>* launcher_is_gone() { return shared_state ? &shared_state->orphaned : nullptr; }

void may_be_cut_off(bool unheard) {
  if (shared_state) shared_state->unheard = unheard;
}

void job_is_over() {
  if (shared_state) shared_state->over = true;
}

}  // namespace yamata
