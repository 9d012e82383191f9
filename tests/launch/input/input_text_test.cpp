// Texts from standard input and pipes, which the user interrupts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/launch/process.hpp"
#include "tests/node/little_memory.hpp"

namespace yamata::test {
namespace {

/// A command whose standard input stays open; the word PIPE in it is the path of the same pipe.
class WaitingCommand {
 public:
  explicit WaitingCommand(Arguments command, bool has_writer = true) {
    mkfifo(fifo_.c_str(), 0600);
    if (has_writer) input_ = open(fifo_.c_str(), O_RDWR);
    std::ranges::replace(command, "PIPE", fifo_);
    Arguments shell{"/bin/sh", "-c", has_writer ? "exec \"$@\" < " + fifo_ : "exec \"$@\"", "sh"};
    shell.insert(shell.end(), command.begin(), command.end());
    process_.emplace(shell);
  }
  ~WaitingCommand() {
    if (input_ >= 0) close(input_);
  }
  void type(const std::string& text) { ASSERT_EQ(write(input_, text.data(), text.size()), static_cast<ssize_t>(text.size())); }
  void write_and_close(const std::string& text) {
    input_ = open(fifo_.c_str(), O_WRONLY);
    type(text);
    close(std::exchange(input_, -1));
  }
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

/// Whether the process waits for input, as read_text does: poll of one descriptor for 250 ms.
bool waits_for_input(pid_t process) {
  return read_file("/proc/" + std::to_string(process) + "/syscall").find(" 0x1 0xfa ") != std::string::npos;
}

/// Whether rank 0 of this mpirun waits for input.
bool waits_as_rank_0(pid_t mpirun) {
  try {
    return waits_for_input(process_of_rank(mpirun, 0));
  } catch (const std::runtime_error&) {
    return false;  // not started
  }
}

/// Interrupts the command while it waits, and expects that it ends as interrupted commands do.
void expect_interruptible(WaitingCommand& command, int signal) {
  ASSERT_TRUE(within(std::chrono::seconds(60), [&] { return waits_for_input(command.process().pid()); })) << command.process().err();
  kill(command.process().pid(), signal);
  ASSERT_TRUE(within(std::chrono::seconds(60), [&] { return command.process().ended(); }));
  EXPECT_EQ(command.process().wait(), 130) << command.process().err();
  EXPECT_EQ(command.process().out(), "");
}

TEST(InputText, InterruptWhileWaiting_endsWithCode130) {
  const std::vector<Arguments> commands{{"run", "-m", kModel, "-f", "-", "-n", "5"},
                                        {"run", "-m", kModel, "-f", "PIPE", "-n", "5"},
                                        {"tokenize", "-m", kModel, "-f", "-"},
                                        {"simulate", "--from", "-"}};
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    for (const Arguments& arguments : commands) {
      WaitingCommand command(yamata(arguments));
      command.type("Once upon");
      expect_interruptible(command, signal);
    }
  }
}

TEST(InputText, InterruptBeforeAPipeHasAWriter_endsWithCode130) {
  WaitingCommand command(yamata({"run", "-m", kModel, "-f", "PIPE", "-n", "5"}), false);
  expect_interruptible(command, SIGINT);
}

TEST(InputText, HangupUnderNohup_doesNotInterrupt) {
  Arguments command = yamata({"tokenize", "-m", kModel, "-f", "PIPE"});
  command.insert(command.begin(), "nohup");
  WaitingCommand waiting(command, false);
  ASSERT_TRUE(within(std::chrono::seconds(60), [&] { return waits_for_input(waiting.process().pid()); })) << waiting.process().err();
  kill(waiting.process().pid(), SIGHUP);
  waiting.write_and_close("Once upon");
  EXPECT_EQ(waiting.process().wait(), 0) << waiting.process().err();
}

TEST(InputText, HangupOfARankOtherThanRank0_doesNotEndTheJob) {
  WaitingCommand command(yamata({"run", "-m", kModel, "-f", "PIPE", "-n", "5"}, 2), false);
  ASSERT_TRUE(within(std::chrono::seconds(60), [&] { return waits_as_rank_0(command.process().pid()); })) << command.process().err();
  kill(process_of_rank(command.process().pid(), 1), SIGHUP);
  command.write_and_close("Once upon");
  EXPECT_EQ(command.process().wait(), 0) << command.process().err();
}

TEST(InputText, APipeIsReadToItsEnd) {
  WaitingCommand command(yamata({"tokenize", "-m", kModel, "-f", "PIPE"}), false);
  ASSERT_TRUE(within(std::chrono::seconds(60), [&] { return waits_for_input(command.process().pid()); })) << command.process().err();
  command.write_and_close("Once upon");
  EXPECT_EQ(command.process().wait(), 0) << command.process().err();
  EXPECT_EQ(command.process().out(), run(yamata({"tokenize", "-m", kModel, "-p", "Once upon"})).out);
}

TEST(InputText, TreeOfAPipe_isReadOnce) {
  Arguments command{"sh", "-c", R"(echo '{"tree": [[0], [1]]}' | "$@")", "sh"};
  for (const std::string& word : yamata({"simulate", "--ranks", "2", "-n", "8", "--policy", "static-tree", "--tree", "/dev/stdin"}))
    command.push_back(word);
  const Outcome outcome = run(command);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(InputText, PromptThatWasNotFinishedUnderMpirun_isNotAnswered) {
  WaitingCommand command(yamata({"run", "-m", kModel, "-f", "-", "-n", "20", "--ignore-eos"}, 2));
  command.type("Once upon");
  ASSERT_TRUE(within(std::chrono::seconds(60), [&] { return waits_as_rank_0(command.process().pid()); })) << command.process().err();
  kill(command.process().pid(), SIGINT);
  command.process().wait();
  EXPECT_EQ(command.process().out(), "");
}

TEST(InputText, TextThatIsNotUtf8_isWarnedOfOnceAndUsed) {
  const TemporaryFolder folder;
  const std::string latin = folder / "latin", cut = folder / "cut", good = folder / "good";
  write_file(latin, "one caf\xE9 noir, two caf\xE9s");
  write_file(cut, "one caf\xC3");
  write_file(good, "one caf\xC3\xA9");
  const auto warnings = [](const Arguments& arguments) {
    const Outcome outcome = run(yamata(arguments));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.warnings();
  };
  const std::string not_utf8 = " is not UTF-8 from byte 7 on (iconv -f ENCODING -t UTF-8 converts it); its bytes are used as they are";
  using Lines = std::vector<std::string>;
  EXPECT_EQ(warnings({"tokenize", "-m", kModel, "-f", latin}), Lines{"yamata: warning: " + latin + not_utf8});
  EXPECT_EQ(warnings({"tokenize", "-m", kModel, "-p", read_file(latin)}), Lines{"yamata: warning: the text of -p" + not_utf8});
  EXPECT_EQ(warnings({"tokenize", "-m", kModel, "-f", good}), Lines{});
  const Lines cut_warning{"yamata: warning: " + cut +
                          " ends within a UTF-8 character, which begins at byte 7 (is it cut?); its bytes are used as they are"};
  EXPECT_EQ(warnings({"run", "-m", kModel, "-f", cut, "-n", "2"}), cut_warning);
  EXPECT_EQ(warnings({"perplexity", "-m", kModel, "-f", cut, "-c", "3"}), cut_warning);
  EXPECT_EQ(warnings({"features", "-m", kModel, "-f", cut, "-o", folder / "features.safetensors"}), cut_warning);
}

TEST(InputText, ByteOrderMarkOrSecondBos_isWarnedOfAndUsed) {
  const TemporaryFolder folder;
  const std::string marked = folder / "marked", plain = folder / "plain";
  write_file(marked, "\xEF\xBB\xBFOnce upon");
  write_file(plain, "\xEF\xBB Once");
  const auto warnings = [](const Arguments& arguments) { return run(yamata(arguments)).warnings(); };
  using Lines = std::vector<std::string>;
  const Lines mark{"yamata: warning: " + marked +
                   " begins with a byte-order mark, which is a part of the text (tail -c +4 FILE leaves it out)"};
  EXPECT_EQ(warnings({"tokenize", "-m", kModel, "-f", marked}), mark);
  EXPECT_EQ(warnings({"run", "-m", kModel, "-f", marked, "-n", "1"}), mark);
  EXPECT_EQ(warnings({"tokenize", "-m", kModel, "-f", plain}).size(), 1u) << "only that it is not UTF-8";
  const Lines doubled{"yamata: warning: the text begins with <s>, and the same token is added before it; leave it out of the text"};
  EXPECT_EQ(warnings({"tokenize", "-m", kModel, "-p", "<s>Once"}), doubled);
  EXPECT_EQ(warnings({"run", "-m", kModel, "-p", "<s>Once", "-n", "1"}), doubled);
  EXPECT_EQ(warnings({"tokenize", "-m", kModel, "-p", "Once<s>"}), Lines{});
  EXPECT_EQ(warnings({"tokenize", "-m", kModel, "-p", "<s>Once", "--no-bos"}), Lines{});
}

TEST(InputText, FileThatIsTooLargeForItsFlag_isRefused) {
  const TemporaryFolder folder;
  const std::string large = folder / "large";
  write_file(large, "");
  std::filesystem::resize_file(large, 3ull << 30);
  const auto refused = [&](const Arguments& arguments, const std::string& flag, const std::string& limit) {
    for (const std::string& file : {large, std::string("/dev/zero")}) {
      Arguments command = arguments;
      command.insert(command.end(), {flag, file});
      const Outcome outcome = run(yamata(command));
      EXPECT_EQ(outcome.code, 2) << flag << outcome.err;
      const std::string line = "yamata: " + file + " is larger than " + limit + " MiB, the limit of " + flag + "; name a smaller file";
      EXPECT_EQ(outcome.complaints(), std::vector<std::string>{line}) << outcome.err;
    }
  };
  for (const Arguments& command : {Arguments{"run", "-m", kModel, "-p", "x"}, {"acceptance", "-m", kModel, "-f", "x"}, {"simulate"}}) {
    Arguments tree = command;
    tree.insert(tree.end(), {"--policy", "static-tree"});
    refused(tree, "--tree", "16");
  }
  refused({"tokenize", "-m", kModel}, "-f", "1024");
  refused({"plan", "-m", kModel}, "--hostfile", "16");
  refused({"simulate"}, "--from", "256");
  const TemporaryFolder profiles;
  const std::string profile = profiles / "a.json";
  std::filesystem::rename(large, profile);
  const Outcome outcome = run(yamata({"plan", "-m", kModel, "--profiles", profiles.path().string()}));
  EXPECT_EQ(outcome.complaints(),
            std::vector<std::string>{"yamata: " + profile + " is larger than 16 MiB, the limit of --profiles; name a smaller file"});
}

#ifdef YAMATA_TEST_LITTLE_MEMORY
TEST(InputText, LackOfMemory_hasARemedyOfTheCommand) {
  const TemporaryFolder folder;
  const std::string zeros = folder / "zeros";
  std::string list = "[0";
  for (int i = 0; i < 10'000'000; ++i) list += ",0";
  write_file(zeros, list + "]");
  const auto complaint = [&](const Arguments& arguments) {
    Arguments command{"sh", "-c", "ulimit -v 200000; exec \"$@\"", "sh"};
    for (const std::string& word : yamata(arguments)) command.push_back(word);
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    return outcome.complaints().empty() ? outcome.err : outcome.complaints()[0];
  };
  EXPECT_NE(complaint({"simulate", "--from", zeros}).find("free some memory, or name smaller files, or raise ulimit -v"),
            std::string::npos);
  EXPECT_NE(
      complaint({"tokenize", "-m", kModel, "-f", "/dev/zero"}).find("no memory to read /dev/zero; name a smaller file with -f, or raise"),
      std::string::npos);
}
#endif

}  // namespace
}  // namespace yamata::test
