// The process that a rank leaves behind, in front of an mpirun that is this test's child.
#include "launch/program/guard/launcher_end.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mpi/cluster/leftovers.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::test {
namespace {

constexpr int kOwnCode = 7;
constexpr ssize_t kMuch = 1 << 20;  // bytes, more than a pipe holds

/// A port of this machine, told to ranks as mpirun's.
int listen_as_mpirun() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, 8) != 0) return -1;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string uri = fmt::format("77.0;tcp://127.0.0.1:{}", ntohs(address.sin_port));
  for (const char* name : {"OMPI_MCA_orte_local_daemon_uri", "OMPI_MCA_orte_hnp_uri"}) setenv(name, uri.c_str(), 1);
  setenv("OMPI_MCA_orte_num_nodes", "1", 1);
  return fd;
}

/// A guard that ends after the end of the job was ordered.
void end_a_rank() {
  const pid_t mpirun = getpid();
  const pid_t guard = fork();
  if (guard == 0) {
    const std::atomic<JobEnd> end{JobEnd::kOrdered};
    stay_behind(mpirun, std::chrono::seconds(1), end);
    _exit(3);
  }
  waitpid(guard, nullptr, 0);
}

/// How an mpirun ends that runs `last` after its only rank has ended: as waitpid says it.
int end_of_mpirun(void (*last)(int port)) {
  const pid_t mpirun = fork();
  if (mpirun == 0) {
    prctl(PR_SET_NAME, "mpirun");
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // what its rank leaves behind becomes its child
    const int port = listen_as_mpirun();
    end_a_rank();
    last(port);
    _exit(kOwnCode);
  }
  int status = 0;
  waitpid(mpirun, &status, 0);
  return status;
}

TEST(LauncherEnd, MpirunThatHangsAtItsEnd_isEnded) {
  const int status = end_of_mpirun([](int) {
    std::mutex lock;
    lock.lock();
    std::thread([&] { lock.lock(); }).join();  // waits for that thread, which waits for ever
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
}

TEST(LauncherEnd, MpirunThatActsOnItsConnections_endsByItself) {
  const int status = end_of_mpirun([](int port) {
    while (waitpid(-1, nullptr, WNOHANG) == 0) {  // until the process that was left behind has ended
      pollfd waiting{port, POLLIN, 0};
      if (poll(&waiting, 1, 10) == 1) close(accept(port, nullptr, nullptr));
    }
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kOwnCode) << status;
}

TEST(LauncherEnd, MpirunThatWaitsForItsReader_endsByItself) {
  const int status = end_of_mpirun([](int) {
    int output[2];
    if (pipe(output) != 0) _exit(1);
    std::thread reader([&] {
      while (waitpid(-1, nullptr, WNOHANG) == 0) usleep(1000);  // until the process that was left behind has ended
      std::vector<char> text(kMuch);
      for (ssize_t left = kMuch; left > 0;) left -= read(output[0], text.data(), kMuch);
    });
    const std::vector<char> text(kMuch);
    if (write(output[1], text.data(), kMuch) != kMuch) _exit(1);
    reader.join();
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kOwnCode) << status;
}

/// Ends when all that the caller's `child` leaves behind has ended, too.
void await_with_descendants(void (*child)()) {
  const pid_t reaper = fork();
  if (reaper == 0) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (fork() == 0) {
      child();
      _exit(0);
    }
    while (waitpid(-1, nullptr, 0) > 0) continue;
    _exit(0);
  }
  waitpid(reaper, nullptr, 0);
}

TEST(LauncherEnd, FolderOfALauncherThatEndedBeforeItsRank_isRemoved) {
  const TemporaryFolder folder;
  const std::string all = folder / "ompi.host.0", session = all + "/pid.1";
  std::filesystem::create_directories(session);
  setenv("OMPI_MCA_orte_top_session_dir", all.c_str(), 1);
  setenv("OMPI_MCA_orte_jobfam_session_dir", session.c_str(), 1);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  await_with_descendants([] {  // the launcher
    const pid_t launcher = getpid();
    int marked[2];
    if (pipe(marked) != 0) return;
    if (fork() != 0) {
      pollfd mark{marked[0], POLLIN, 0};
      poll(&mark, 1, -1);
      return;
    }
    mark_session();
    if (write(marked[1], "", 1) != 1) _exit(1);
    while (getppid() == launcher) usleep(1000);
    const std::atomic<JobEnd> end{JobEnd::kNormal};
    stay_behind(launcher, std::chrono::seconds(1), end);
    _exit(0);
  });
  EXPECT_FALSE(std::filesystem::exists(session));
  for (const char* name : {"OMPI_MCA_orte_top_session_dir", "OMPI_MCA_orte_jobfam_session_dir", "OMPI_COMM_WORLD_RANK"}) unsetenv(name);
}

}  // namespace
}  // namespace yamata::test
