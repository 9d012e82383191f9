// A prompt from standard input that the user interrupts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>

#include "tests/launch/process.hpp"

namespace yamata::test {
namespace {

/// A command whose standard input stays open.
class WaitingCommand {
 public:
  explicit WaitingCommand(const Arguments& command) {
    mkfifo(fifo_.c_str(), 0600);
    input_ = open(fifo_.c_str(), O_RDWR);
    Arguments shell{"/bin/sh", "-c", "exec \"$@\" < " + fifo_, "sh"};
    shell.insert(shell.end(), command.begin(), command.end());
    process_.emplace(shell);
  }
  ~WaitingCommand() { close(input_); }
  void type(const std::string& text) { ASSERT_EQ(write(input_, text.data(), text.size()), static_cast<ssize_t>(text.size())); }
  Process& process() { return *process_; }

 private:
  TemporaryFolder folder_;
  const std::string fifo_ = folder_ / "input";
  int input_ = -1;
  std::optional<Process> process_;
};

bool within(std::chrono::seconds limit, const std::function<bool()>& happened) {
  for (const auto end = std::chrono::steady_clock::now() + limit; !happened();) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// Whether the process waits for input, as read_standard_input does: poll of one descriptor for 250 ms.
bool waits_for_input(pid_t process) {
  return read_file("/proc/" + std::to_string(process) + "/syscall").find(" 0x1 0xfa ") != std::string::npos;
}

TEST(StandardInput, InterruptWhileWaiting_endsWithCode130) {
  for (const int signal : {SIGINT, SIGTERM}) {
    WaitingCommand command(yamata({"run", "-m", kModel, "-f", "-", "-n", "5"}));
    command.type("Once upon");
    ASSERT_TRUE(within(std::chrono::seconds(60), [&] { return waits_for_input(command.process().pid()); })) << command.process().err();
    kill(command.process().pid(), signal);
    ASSERT_TRUE(within(std::chrono::seconds(60), [&] { return command.process().ended(); }));
    EXPECT_EQ(command.process().wait(), 130) << command.process().err();
    EXPECT_EQ(command.process().out(), "");
  }
}

TEST(StandardInput, PromptThatWasNotFinishedUnderMpirun_isNotAnswered) {
  WaitingCommand command(yamata({"run", "-m", kModel, "-f", "-", "-n", "20", "--ignore-eos"}, 2));
  command.type("Once upon");
  const auto waits = [&] {
    try {
      return waits_for_input(process_of_rank(command.process().pid(), 0));
    } catch (const std::runtime_error&) {
      return false;  // not started
    }
  };
  ASSERT_TRUE(within(std::chrono::seconds(60), waits)) << command.process().err();
  kill(command.process().pid(), SIGINT);
  command.process().wait();
  EXPECT_EQ(command.process().out(), "");
}

}  // namespace
}  // namespace yamata::test
