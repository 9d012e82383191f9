// The guard of a rank that ends, in front of a launcher that is this test.
#include "launch/program/guard/guard.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "node/process.hpp"

namespace yamata::test {
namespace {

constexpr int kCode = 7;

void stop_guard() { kill(getppid(), SIGSTOP); }

/// Returns in the rank.
void start_rank(std::chrono::milliseconds deadline) {
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  char name[] = "yamata";
  char* arguments[] = {name, nullptr};
  guard_rank(1, arguments, deadline);
}

/// A rank that ends with kCode, after `last`.
[[noreturn]] void be_rank(void (*last)()) {
  // Before a sanitizer looks for leaks: it stops the process for that, and would wait for ever if the guard passed a SIGCONT on meanwhile.
  std::atexit([] { _exit(kCode); });
  std::atexit(last);  // after what the guard's side of the rank does at its end
  start_rank(std::chrono::seconds(60));
  tell_guard(Phase::kEnding);
  std::exit(kCode);
}

/// A rank that hears no other, on a machine from which mpirun cannot be reached. Tells its process id.
[[noreturn]] void be_cut_off(bool dispensable, int teller) {
  setenv("OMPI_MCA_orte_local_daemon_uri", "77.1;tcp://127.0.0.1:1", 1);
  setenv("OMPI_MCA_orte_hnp_uri", "77.0;tcp://127.0.0.1:1", 1);  // nothing listens there
  setenv("OMPI_MCA_ess_base_num_procs", "2", 1);
  start_rank(std::chrono::milliseconds(1));
  tell_guard(Phase::kWatched);
  const pid_t own = getpid();
  if (write(teller, &own, sizeof(own)) != sizeof(own)) _exit(1);
  let_job_survive_this_rank(dispensable);
  may_be_cut_off();
  while (true) pause();
}

/// A rank that tells when SIGTERM has reached it.
[[noreturn]] void be_asked(int teller) {
  start_rank(std::chrono::seconds(60));
  static int told = teller;
  signal(SIGTERM, [](int) {
    if (write(told, "", 1) != 1) _exit(1);
  });
  if (write(told, "", 1) != 1) _exit(1);
  while (true) pause();
}

/// The exit code of a child, or -1 if it does not end.
int code_of(pid_t child) {
  int status = 0;
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60); waitpid(child, &status, WNOHANG) != child;) {
    if (std::chrono::steady_clock::now() > end) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Guard, ThatIsStoppedAsItsRankEnds_endsWithTheRanksCode) {
  for (void (*last)() : {+[] {}, &stop_guard}) {
    const pid_t guard = fork();
    if (guard == 0) be_rank(last);
    const int code = code_of(guard);
    EXPECT_EQ(code, kCode);
    if (code == -1) kill(guard, SIGKILL);
  }
}

TEST(Guard, OfARankThatIsCutOff_staysIfTheJobDoesNotNeedTheRank) {
  for (const bool dispensable : {true, false}) {
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    const pid_t guard = fork();
    if (guard == 0) be_cut_off(dispensable, told[1]);
    pid_t rank = 0;
    ASSERT_EQ(read(told[0], &rank, sizeof(rank)), static_cast<ssize_t>(sizeof(rank)));
    int status = 0;
    while (waitpid(guard, &status, WNOHANG) == 0 && process_state(rank) != '?') std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(process_state(guard) != '?', dispensable);  // it alone can collect a rank that it has killed
    if (process_state(guard) != '?') {
      kill(guard, SIGKILL);
      waitpid(guard, nullptr, 0);
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
    }
    for (const int end : told) close(end);
  }
}

TEST(Guard, ThatIsKilledAfterItWasAskedToEnd_hasLeftAProcessThatSeesToTheLauncher) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // that process becomes this one's child
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t guard = fork();
  if (guard == 0) be_asked(told[1]);
  char byte = 0;
  ASSERT_EQ(read(told[0], &byte, 1), 1);
  kill(guard, SIGTERM);
  ASSERT_EQ(read(told[0], &byte, 1), 1);
  kill(guard, SIGKILL);
  int status = 0, ended = 0;
  while (waitpid(-1, &status, 0) > 0) ended += WIFEXITED(status);  // the guard and its rank are killed
  EXPECT_EQ(ended, 1);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  for (const int end : told) close(end);
}

}  // namespace
}  // namespace yamata::test
