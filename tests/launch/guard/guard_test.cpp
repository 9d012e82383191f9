// The guard of a rank that ends, in front of a launcher that is this test.
#include "launch/guard/guard.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace yamata::test {
namespace {

constexpr int kCode = 7;

void stop_guard() { kill(getppid(), SIGSTOP); }

/// A rank that ends with kCode, after `last`.
[[noreturn]] void be_rank(void (*last)()) {
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  std::atexit(last);  // after what the guard's side of the rank does at its end
  char name[] = "yamata";
  char* arguments[] = {name, nullptr};
  guard_rank(1, arguments, std::chrono::seconds(60));
  tell_guard(Phase::kEnding);
  std::exit(kCode);
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

}  // namespace
}  // namespace yamata::test
