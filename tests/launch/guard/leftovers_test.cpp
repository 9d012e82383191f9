// Jobs whose launcher is killed leave nothing on the machine: either at once, or after the next job starts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <thread>

#include "tests/launch/process.hpp"

namespace yamata::test {
namespace {

namespace fs = std::filesystem;

/// A job with two ranks and its own folder for temporary files.
class KilledLauncher : public testing::Test {
 protected:
  KilledLauncher() { setenv("TMPDIR", folder_.path().c_str(), 1); }
  ~KilledLauncher() override { unsetenv("TMPDIR"); }

  /// Starts the job and waits until both ranks compute.
  void start() {
    job_ = std::make_unique<Process>(
        yamata({"run", "-m", kModel, "-p", "Once", "-n", "100000", "-c", "110000", "-t", "1", "--ignore-eos"}, 2));
    ASSERT_TRUE(job_->wait_for_output(100)) << job_->err();
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.path().filename() != "yamata-rank-0") continue;
      std::istringstream mark(read_file(entry.path()));
      std::string space;
      unsigned long number = 0;
      mark >> space >> number;
      char name[64];
      std::snprintf(name, sizeof(name), ".%lx.", number);
      job_number_ = name;
    }
    ASSERT_FALSE(job_number_.empty());
    ASSERT_FALSE(remains().empty());
  }

  /// Open MPI's temporary files, and the shared memory of the job's ranks.
  std::string remains() const {
    std::string names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      const std::string name = entry.path();
      if (!entry.is_directory() && name.find("/ompi.") != std::string::npos) names += name + "\n";
    }
    for (const auto& entry : fs::directory_iterator("/dev/shm")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("vader_segment.") && name.find(job_number_) != std::string::npos) names += name + "\n";
    }
    return names;
  }

  /// Whether all processes of the job have ended with all their threads: each holds the locks of the marks until then.
  bool marks_are_free() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (!entry.path().filename().string().starts_with("yamata-rank-")) continue;
      const int mark = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      const bool is_free = flock(mark, LOCK_EX | LOCK_NB) == 0;
      close(mark);
      if (!is_free) return false;
    }
    return true;
  }

  template <class Condition>
  static bool comes_true(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return condition();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Process> job_;
  std::string job_number_;
};

TEST_F(KilledLauncher, LeavesNothing) {
  start();
  kill(job_->pid(), SIGKILL);
  EXPECT_EQ(job_->wait(), 128 + SIGKILL);
  EXPECT_TRUE(comes_true([&] {
    try {
      return remains().empty();
    } catch (const fs::filesystem_error&) {  // files disappear during the listing
      return false;
    }
  })) << remains();
}

TEST_F(KilledLauncher, WithItsRanks_isClearedByTheNextJob) {
  start();
  const pid_t ranks[] = {process_of_rank(job_->pid(), 0), process_of_rank(job_->pid(), 1)};
  const pid_t guards[] = {parent_of(ranks[0]), parent_of(ranks[1])};  // 0 if the rank has ended
  for (const pid_t guard : guards) kill(guard, SIGSTOP);              // so that none can clean up
  kill(job_->pid(), SIGKILL);
  for (const pid_t guard : guards) kill(guard, SIGKILL);
  EXPECT_EQ(job_->wait(), 128 + SIGKILL);
  EXPECT_TRUE(comes_true([&] { return marks_are_free(); }));
  EXPECT_FALSE(remains().empty());

  const Outcome next = run(yamata({"run", "-m", kModel, "-p", "Once", "-n", "2"}, 2));
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_EQ(remains(), "");
}

}  // namespace
}  // namespace yamata::test
