// Ranks for which MPI cannot start: one line says why.
#include "launch/program/guard/mpi_start.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "launch/program/guard/guard.hpp"
#include "tests/launch/process.hpp"
#include "tests/node/little_memory.hpp"

namespace yamata::test {
namespace {

using namespace std::chrono_literals;

/// Ranks, of which those that this condition of the shell names have a limit (flags of ulimit).
Outcome run_with_limit(int ranks, const std::string& condition, const std::string& limit) {
  Arguments command = yamata({"run", "-m", kModel, "-p", "x", "-n", "2"}, ranks);
  const auto program = std::find(command.begin(), command.end(), test::kProgram);
  command.insert(program, {"sh", "-c", fmt::format("{} && ulimit {}; exec \"$@\"", condition, limit), "sh"});
  return run(command);
}

constexpr const char* kOnlyRank1 = "[ $OMPI_COMM_WORLD_RANK = 1 ]";

#ifdef YAMATA_TEST_LITTLE_MEMORY
/// One line, of this rank.
void expect_lack_of_memory(const Outcome& outcome, int rank) {
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  const auto lines = outcome.complaints();
  ASSERT_EQ(lines.size(), 1u) << outcome.err;
  EXPECT_EQ(lines[0].find(fmt::format("yamata: rank {} (", rank)), 0u) << lines[0];
  EXPECT_NE(lines[0].find("ulimit -v allows 146 MiB"), std::string::npos) << lines[0];
}

TEST(MpiStart, MemoryLimitOfAllRanks_isReportedOnce) { expect_lack_of_memory(run_with_limit(2, "true", "-v 150000"), 0); }

TEST(MpiStart, MemoryLimitOfAnotherRank_isReportedByThatRank) { expect_lack_of_memory(run_with_limit(2, kOnlyRank1, "-v 150000"), 1); }

TEST(MpiStartDeathTest, MemoryLimit_isNamedWithWhatMpiNeeds) {
  EXPECT_EXIT(end_in_little_memory([] { require_limits_for_mpi(0ms); }), testing::ExitedWithCode(2),
              "cannot start MPI, which takes [0-9]+ MiB of memory: ulimit -v allows [0-9]+ MiB; raise it");
}
#endif

TEST(MpiStart, LimitOfFiles_isReportedByTheRankThatHasIt) {
  for (const auto& [limit, lack] :
       {std::pair{"-n 15", "20 open files: ulimit -n allows 15; raise it"}, std::pair{"-f 1", "files of 5120 KiB: ulimit -f allows "}}) {
    const Outcome outcome = run_with_limit(2, kOnlyRank1, limit);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    const auto lines = outcome.complaints();
    ASSERT_EQ(lines.size(), 1u) << outcome.err;
    EXPECT_EQ(lines[0].find("yamata: rank 1 ("), 0u) << lines[0];
    EXPECT_NE(lines[0].find(fmt::format("cannot start MPI, which takes {}", lack)), std::string::npos) << lines[0];
  }
}

TEST(MpiStart, SingleRankOfAMachine_mayBeLimitedToSmallFiles) {
  const Outcome outcome = run_with_limit(1, "true", "-f 1");
  EXPECT_EQ(outcome.err.find("cannot start MPI"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(MpiStart, ProcessWithoutMemoryLimit_passes) { EXPECT_NO_THROW(require_limits_for_mpi(0ms)); }

TEST(MpiStart, HigherRanks_waitLongerButNotBeyondTheDeadline) {
  EXPECT_EQ(patience_with_lower_ranks(0, 60s), 0ms);
  EXPECT_LT(patience_with_lower_ranks(1, 60s), patience_with_lower_ranks(2, 60s));
  EXPECT_EQ(patience_with_lower_ranks(1000, 60s), 60s);
}

/// yamata with these arguments as a task of srun --mpi=none.
Outcome run_as_task(const char* task, const Arguments& arguments) {
  Arguments command = {"env", "SLURM_STEP_NUM_TASKS=3", fmt::format("SLURM_PROCID={}", task), kProgram};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run(command);
}

TEST(MpiStart, TasksThatSrunHasNotConnected_areRefusedInOneLine) {
  const Arguments job = {"run", "-m", kModel, "-p", "x", "-n", "2"};
  const Outcome first = run_as_task("0", job), other = run_as_task("1", job);
  EXPECT_EQ(std::pair(first.code, other.code), std::pair(1, 1));
  EXPECT_EQ(first.out + other.out + other.err, "");
  ASSERT_EQ(first.complaints().size(), 1u) << first.err;
  EXPECT_NE(first.err.find("srun has started 3 tasks, but has not connected them"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("write srun --mpi=pmix"), std::string::npos) << first.err;
}

TEST(MpiStart, TasksOfSrun_mayRunMpirunAndCommandsWithoutRanks) {
  EXPECT_EQ(run_as_task("0", {"--version"}).code, 0);
  Arguments job = yamata({"run", "-m", kModel, "-p", "x", "-n", "2"}, 1);
  job.insert(job.begin(), {"env", "SLURM_STEP_NUM_TASKS=3", "SLURM_PROCID=0"});
  const Outcome outcome = run(job);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

/// The end of rank 0's guard if the rank ends by `end` while MPI starts, with MPI's files in this folder.
Outcome end_of_guard(const char* folder, void (*end)(int)) {
  int lines[2];
  if (pipe(lines) != 0) return {};
  const pid_t guard = fork();
  if (guard == 0) {
    dup2(lines[1], STDERR_FILENO);
    close(lines[0]);
    close(lines[1]);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_MCA_orte_tmpdir_base", folder, 1);
    char name[] = "yamata";
    char* arguments[] = {name, nullptr};
    guard_rank(1, arguments, 60s);
    end(1);
  }
  close(lines[1]);
  Outcome outcome{};
  char text[512];
  for (ssize_t bytes; (bytes = read(lines[0], text, sizeof(text))) > 0;) outcome.err.append(text, static_cast<std::size_t>(bytes));
  close(lines[0]);
  int status = 0;
  waitpid(guard, &status, 0);
  outcome.code = WEXITSTATUS(status);
  return outcome;
}

constexpr const char* kFull = "/proc";  // has no space

TEST(MpiStart, RankThatMpiEndsInAFullFolder_isExplained) {
  const Outcome outcome = end_of_guard(kFull, _exit);
  EXPECT_EQ(outcome.code, 2);
  const auto lines = outcome.complaints();
  ASSERT_EQ(lines.size(), 1u) << outcome.err;
  EXPECT_NE(lines[0].find("cannot start MPI: the temporary folder /proc has only 0 KiB left; free some space there, or set TMPDIR"),
            std::string::npos)
      << lines[0];
}

TEST(MpiStart, RankThatEndsItself_keepsItsCode) {
  const Outcome itself = end_of_guard(kFull, std::exit), unknown = end_of_guard("/no such folder", _exit);
  EXPECT_EQ(itself.code, 1);
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(itself.err + unknown.err, "");
}

}  // namespace
}  // namespace yamata::test
