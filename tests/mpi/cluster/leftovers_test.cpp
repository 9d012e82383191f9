// Files of a killed launcher are removed if they belong to a dead job of Yamata, and stay otherwise.
#include "mpi/cluster/leftovers.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "node/process.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata {
namespace {

namespace fs = std::filesystem;

/// A machine's temporary files, with some jobs.
class Leftovers : public testing::Test {
 protected:
  Leftovers() {
    fs::create_directories(sessions_);
    fs::create_directories(memory_);
  }

  /// A job's files as Open MPI makes them, with a rank's process; the job is dead.
  void make_job(const std::string& name, unsigned long number, bool marked) {
    const fs::path session = sessions_ / name;
    fs::create_directories(session / "0" / "0");
    write(session / "contact.txt");
    write(session / "0" / "smseg");
    for (const int rank : {0, 1}) write(segment(number, rank));
    if (!marked) return;
    for (const int rank : {0, 1}) in_launcher([&] { mark_as(session, number, rank); });
  }
  /// Runs `work` in a process whose launcher then ends.
  template <class Work>
  static void in_launcher(Work work) {
    const pid_t launcher = fork();
    if (launcher == 0) {
      if (const pid_t guard = fork(); guard != 0) _exit(waitpid(guard, nullptr, 0) == guard ? 0 : 1);
      work();
      _exit(0);
    }
    waitpid(launcher, nullptr, 0);
  }
  static void mark_as(const fs::path& session, unsigned long number, int rank) {
    setenv("OMPI_MCA_orte_jobfam_session_dir", session.c_str(), 1);
    setenv("OMPI_COMM_WORLD_RANK", std::to_string(rank).c_str(), 1);
    setenv("PMIX_NAMESPACE", std::to_string(number).c_str(), 1);
    mark_session();
  }
  fs::path segment(unsigned long number, int rank) const {
    char name[64];
    std::snprintf(name, sizeof(name), "vader_segment.node.7.%lx.%d", number, rank);
    return memory_ / name;
  }
  static void write(const fs::path& file) { std::ofstream(file) << "something"; }
  void clear() const { clear_leftovers(sessions_, memory_); }
  bool is_whole(const std::string& name, unsigned long number) const {
    return fs::exists(sessions_ / name / "contact.txt") && fs::exists(sessions_ / name / "0" / "smseg") && fs::exists(segment(number, 0)) &&
           fs::exists(segment(number, 1));
  }
  bool is_gone(const std::string& name, unsigned long number) const {
    return !fs::exists(sessions_ / name) && !fs::exists(segment(number, 0)) && !fs::exists(segment(number, 1));
  }

  test::TemporaryFolder folder_;
  const fs::path sessions_ = folder_ / "ompi.node.7", memory_ = folder_ / "shm";
};

TEST_F(Leftovers, DeadJobs_areCleared) {
  make_job("pid.1", 0x3b490001, true);
  make_job("jf.2", 0x12, true);
  clear();
  EXPECT_TRUE(is_gone("pid.1", 0x3b490001));
  EXPECT_TRUE(is_gone("jf.2", 0x12));
  EXPECT_FALSE(fs::exists(sessions_));
}

TEST_F(Leftovers, OtherProgramsJobs_stay) {
  make_job("pid.1", 0x1230001, false);
  make_job("pid.2", 0x123, true);  // its number begins with the same digits
  clear();
  EXPECT_TRUE(is_whole("pid.1", 0x1230001));
  EXPECT_TRUE(is_gone("pid.2", 0x123));
}

TEST_F(Leftovers, FolderThatAJobHasJustMade_stays) {
  fs::create_directories(sessions_ / "pid.1");
  make_job("pid.2", 5, true);
  clear();
  EXPECT_TRUE(is_gone("pid.2", 5));
  EXPECT_TRUE(fs::exists(sessions_ / "pid.1"));
  fs::remove(sessions_ / "pid.1");
  clear();  // it may belong to another program
  EXPECT_TRUE(fs::exists(sessions_));
}

TEST_F(Leftovers, JobWithoutRanksWhoseLauncherLives_stays) {
  make_job("pid.1", 5, true);
  const pid_t between_two_commands = fork();
  if (between_two_commands == 0) {
    mark_as(sessions_ / "pid.1", 5, 1);
    _exit(0);
  }
  waitpid(between_two_commands, nullptr, 0);  // it is a child of this process, like a script
  clear();
  EXPECT_TRUE(is_whole("pid.1", 5));
}

TEST_F(Leftovers, JobWhoseLauncherWasKilledBeforeARankMarkedIt_isCleared) {
  make_job("pid.1", 5, true);
  int life[2];
  ASSERT_EQ(pipe(life), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    if (fork() == 0) {
      while (getppid() != 1) usleep(1000);
      mark_as(sessions_ / "pid.1", 5, 1);
      const pid_t own = getpid();
      _exit(::write(life[1], &own, sizeof(own)) == static_cast<ssize_t>(sizeof(own)) ? 0 : 1);
    }
    _exit(0);
  }
  waitpid(launcher, nullptr, 0);
  pid_t rank = 0;
  ASSERT_EQ(read(life[0], &rank, sizeof(rank)), static_cast<ssize_t>(sizeof(rank)));
  const auto has_ended = [rank] {  // all of its threads: TSan has one of its own
    std::error_code gone;
    const auto threads = std::distance(fs::directory_iterator("/proc/" + std::to_string(rank) + "/task", gone), {});
    return process_state(rank) == '?' || (process_state(rank) == 'Z' && threads <= 1);
  };
  while (!has_ended()) usleep(1000);
  for (const int fd : life) close(fd);
  clear();
  EXPECT_TRUE(is_gone("pid.1", 5));
}

TEST_F(Leftovers, JobWithALivingRank_staysUntilItEnds) {
  make_job("pid.1", 5, true);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int life[2];
  ASSERT_EQ(pipe(life), 0);
  in_launcher([&] {
    mark_as(sessions_ / "pid.1", 5, 1);
    if (fork() == 0) {  // the rank has inherited the mark from its guard, and outlives it
      close(life[1]);
      char end = 0;
      _exit(static_cast<int>(read(life[0], &end, 1)));
    }
  });
  clear();
  EXPECT_TRUE(is_whole("pid.1", 5));
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  close(life[1]);
  waitpid(-1, nullptr, 0);  // the rank
  clear();
  EXPECT_TRUE(is_gone("pid.1", 5));
}

TEST_F(Leftovers, JobOfWhichAProcessMapsAFile_stays) {
  make_job("pid.1", 5, true);
  const int fd = open((sessions_ / "pid.1" / "0" / "smseg").c_str(), O_RDWR);
  void* memory = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  close(fd);
  clear();
  EXPECT_TRUE(is_whole("pid.1", 5));
  munmap(memory, 4096);
  clear();
  EXPECT_TRUE(is_gone("pid.1", 5));
}

TEST_F(Leftovers, JobOfAnotherContainer_stays) {
  make_job("pid.1", 5, true);
  std::ofstream(sessions_ / "pid.1" / "yamata-rank-1") << "pid:[1]\n5\n";
  clear();
  EXPECT_TRUE(is_whole("pid.1", 5));
}

}  // namespace
}  // namespace yamata
