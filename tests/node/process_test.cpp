// Information about other processes.
#include "node/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/temporary_folder.hpp"

namespace yamata {
namespace {

/// A child with a given name that waits until it is ended.
class Child {
 public:
  explicit Child(const char* name) {
    int ready[2];
    if (pipe(ready) != 0) throw std::runtime_error("no pipe");
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_NAME, name);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      [[maybe_unused]] const auto written = write(ready[1], "x", 1);
      while (true) pause();
    }
    char x;
    [[maybe_unused]] const auto got = read(ready[0], &x, 1);
    close(ready[0]), close(ready[1]);
  }
  ~Child() {
    if (process_ == 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  pid_t process() const { return process_; }
  /// Sends a signal and waits for its effect, without reaping the process.
  void signal(int number, int effect) const {
    kill(process_, number);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(process_), &info, effect | WNOWAIT);
  }
  void reap() {
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

TEST(Process, OfAnyName_isDescribed) {
  const Child child("a) Z (b 1 2");  // the name looks like fields of the file
  EXPECT_EQ(process_name(child.process()), "a) Z (b 1 2");
  EXPECT_EQ(process_parent(child.process()), getpid());
  EXPECT_NE(std::string("SR").find(process_state(child.process())), std::string::npos);
  EXPECT_GE(process_start(child.process()), process_start(getpid()));
  EXPECT_GT(process_start(getpid()), process_start(1));
}

TEST(Process, OutputOfAnother_continuesWhereOthersHaveWritten) {
  const test::TemporaryFolder folder;
  const int fd = open((folder / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  const Child child("writer");  // has the same file open, at the same position
  const auto handle = static_cast<int>(syscall(SYS_pidfd_open, child.process(), 0));
  if (syscall(SYS_pidfd_getfd, handle, fd, 0) < 0) GTEST_SKIP() << "the kernel shares no descriptors here";
  const int output = open_output(child.process(), fd);
  ASSERT_GE(output, 0);
  EXPECT_EQ(write(output, "one\n", 4), 4);
  EXPECT_EQ(write(fd, "two\n", 4), 4);
  close(output), close(fd);
  std::ifstream log(folder / "log");
  EXPECT_EQ(std::string(std::istreambuf_iterator(log), {}), "one\ntwo\n");
}

TEST(Process, StoppedAndEnded_areTold) {
  Child child("child");
  child.signal(SIGSTOP, WSTOPPED);
  EXPECT_EQ(process_state(child.process()), 'T');
  child.signal(SIGKILL, WEXITED);
  EXPECT_EQ(process_state(child.process()), 'Z');
  const pid_t gone = child.process();
  child.reap();
  EXPECT_EQ(process_state(gone), '?');
  EXPECT_EQ(process_name(gone), "");
  EXPECT_EQ(process_parent(gone), 0);
  EXPECT_EQ(process_start(gone), 0u);
}

TEST(Process, LaunchersOfOpenMpi_areKnownByTheirNames) {
  for (const char* name : {"mpirun", "mpiexec", "mpirun.openmpi", "orterun", "prterun"}) EXPECT_TRUE(is_mpirun(name)) << name;
  for (const char* name : {"", "bash", "orted", "yamata"}) EXPECT_FALSE(is_mpirun(name)) << name;
  EXPECT_TRUE(is_mpirun_daemon("orted"));
  EXPECT_FALSE(is_mpirun_daemon("mpirun"));
}

}  // namespace
}  // namespace yamata
