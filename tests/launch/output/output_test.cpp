// Full disks, and files that may not be replaced: all possible outputs are written, errors of the others are reported, and the exit code is
// 2.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "launch/program/output/launcher_output.hpp"
#include "launch/program/output/output_file.hpp"
#include "node/lost_pages.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

/// Runs the command in a shell, with this redirection after it.
Outcome run_in_shell(const Arguments& command, const std::string& redirection) {
  Arguments all{"sh", "-c", "\"$@\" " + redirection, "sh"};
  all.insert(all.end(), command.begin(), command.end());
  return run(all);
}

Arguments short_run(const Arguments& more = {}) {
  Arguments arguments{"run", "-m", kModel, "-p", "Once upon a time", "-n", "8", "--ignore-eos"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// Expects exit code 2 and a line for each of `words`, in that order.
void expect_faults(const Outcome& outcome, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  const auto complaints = outcome.complaints();
  ASSERT_EQ(complaints.size(), words.size()) << outcome.err;
  for (std::size_t i = 0; i < words.size(); ++i)
    EXPECT_NE(complaints[i].find(words[i]), std::string::npos) << words[i] << " in " << complaints[i];
}

/// Sets FS_IMMUTABLE_FL or FS_APPEND_FL during its life, if the file system and the user's rights allow it.
class Attribute {
 public:
  Attribute(const std::string& path, int flag) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    int with = 0;
    set_ = ioctl(fd_, FS_IOC_GETFLAGS, &before_) == 0 && (with = before_ | flag, ioctl(fd_, FS_IOC_SETFLAGS, &with) == 0);
  }
  ~Attribute() {
    if (set_) ioctl(fd_, FS_IOC_SETFLAGS, &before_);
    close(fd_);
  }
  bool set() const { return set_; }

 private:
  int fd_, before_ = 0;
  bool set_ = false;
};

class OutputTest : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string json_ = folder_ / "r.json", csv_ = folder_ / "r.csv", trace_ = folder_ / "r.trace";
};

TEST_F(OutputTest, FullDisk_losesNothingThatFits) {
  const Outcome outcome = run(yamata(short_run({"--json", json_, "--trace", trace_, "--csv", csv_})), 1024);
  expect_faults(outcome, {json_, trace_});
  EXPECT_NE(outcome.err.find("File too large; raise ulimit -f"), std::string::npos) << outcome.err;
  const std::string csv = read_file(csv_);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2) << csv;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / ""), {}), 1);
}

TEST_F(OutputTest, StreamsThatAreClosed_areNeitherReadNorWritten) {
  for (const int ranks : {1, 2}) {
    for (const char* closed : {">&-", "<&- >&-"}) {
      Arguments command = yamata(short_run(), ranks);
      const auto program = std::find(command.begin(), command.end(), test::kProgram);
      command.insert(program, {"sh", "-c", std::string("exec \"$@\" ") + closed, "sh"});
      const Outcome outcome = run(command);
      EXPECT_EQ(outcome.code, 2) << closed << outcome.err;
      EXPECT_NE(outcome.err.find("cannot write to standard output"), std::string::npos) << outcome.err;
    }
  }
}

TEST_F(OutputTest, TooManyOpenFiles_haveTheirRemedy) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  std::exception_ptr failure;  // read when files can be opened: UBSan opens one to see an object's type
  try {
    yamata::write_file(json_, "text");
  } catch (const ModelError&) {
    failure = std::current_exception();
  }
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(failure);
  std::string message;
  try {
    std::rethrow_exception(failure);
  } catch (const ModelError& e) {
    message = e.what();
  }
  EXPECT_EQ(message, "cannot write " + json_ + ": Too many open files; raise ulimit -n");
}

TEST_F(OutputTest, TwoOutputsInOneFile_areRefusedHoweverItIsWritten) {
  const std::string inside = folder_ / "inside", linked = folder_ / "linked";
  std::filesystem::create_directory(inside);
  std::filesystem::create_directory_symlink(inside, linked);
  for (const std::string& other : {inside + "/./r", inside + "/../inside/r", linked + "/r"}) {
    const Outcome outcome = run(yamata(short_run({"--json", inside + "/r", "--csv", other})));
    EXPECT_EQ(outcome.code, 1) << other;
    EXPECT_NE(outcome.err.find("two flags write to"), std::string::npos) << outcome.err;
  }
}

TEST(CheckOutputs, FilesOfAnInput_areNotOverwritten) {
  const TemporaryFolder folder;
  const std::string draft_heads = folder / "heads", inside = folder / "heads/model.safetensors";
  const std::string first = folder / "m-00001-of-00002.gguf", second = folder / "m-00002-of-00002.gguf";
  const std::string other = folder / "n-00002-of-00002.gguf";
  std::filesystem::create_directory(draft_heads);
  for (const std::string& file : {inside, first, second, other}) write_file(file, "{}");
  EXPECT_THROW(check_outputs({{inside, OutputKind::kJson}}, {draft_heads}), UsageError);
  EXPECT_THROW(check_outputs({{second, OutputKind::kJson}}, {first}), UsageError);
  EXPECT_NO_THROW(check_outputs({{other, OutputKind::kJson}}, {first, draft_heads}));
  write_file(folder / "heads/result.json", "{}");
  EXPECT_NO_THROW(check_outputs({{folder / "heads/result.json", OutputKind::kJson}}, {draft_heads}));
}

TEST(CheckOutputs, EveryFileThatACommandReads_isKept) {
  const TemporaryFolder folder;
  const std::string tree = folder / "tree.json", draft = folder / "draft.gguf", draft_heads = folder / "heads.safetensors";
  write_file(tree, "{\"tree\": [[0]]}");
  std::filesystem::copy_file(test::source_path("/models/tales-draft-q8_0.gguf"), draft);
  std::filesystem::copy_file(test::source_path("/models/tales-medusa.safetensors"), draft_heads);
  write_file(folder / "hosts.txt", "a\n");
  const std::string prompts = test::source_path("/launch/experiments/tales.jsonl");
  const Arguments shaped{"--policy", "static-tree", "--tree", tree};
  const auto expect_kept = [&](Arguments command, const Arguments& more, const std::string& file) {
    command.insert(command.end(), more.begin(), more.end());
    command.insert(command.end(), {"--json", file});
    const Outcome outcome = run(yamata(command));
    EXPECT_EQ(outcome.code, 1) << file << outcome.err;
    EXPECT_NE(outcome.err.find(file + " would be overwritten"), std::string::npos) << outcome.err;
  };
  const Arguments text{"run", "-m", kModel, "-p", "x", "-n", "2", "-md", draft}, rates{"acceptance", "-m", kModel, "-f", prompts};
  expect_kept(text, shaped, tree);
  expect_kept({"simulate", "--ranks", "2"}, shaped, tree);
  expect_kept(rates, {"-md", draft}, draft);
  expect_kept(rates, {"--heads", draft_heads}, draft_heads);
  expect_kept({"plan", "-m", kModel, "--hostfile", folder / "hosts.txt"}, {}, folder / "hosts.txt");
}

TEST_F(OutputTest, FileBelowADevice_isNoticedBeforeTheRun) {
  const Outcome outcome = run(yamata(short_run({"--json", "/dev/null/run.json"})));
  expect_faults(outcome, {"/dev/null/run.json: Not a directory"});
  EXPECT_EQ(outcome.out, "") << "the run took place";
}

TEST_F(OutputTest, FileThatMayNotBeReplaced_isNoticedBeforeTheRun) {
  write_file(json_, "{\"older\": 1}");
  int tried = 0;
  for (const int flag : {FS_IMMUTABLE_FL, FS_APPEND_FL}) {
    const Attribute attribute(json_, flag);
    if (!attribute.set()) continue;
    const Outcome outcome = run(yamata(short_run({"--json", json_})));
    expect_faults(outcome, {json_});
    EXPECT_EQ(outcome.out, "") << "the run took place";
    ++tried;
  }
  if (geteuid() != 0) {
    std::filesystem::permissions(json_, std::filesystem::perms::owner_read);
    const Outcome outcome = run(yamata(short_run({"--json", json_})));
    expect_faults(outcome, {json_});
    EXPECT_EQ(outcome.out, "") << "the run took place";
    ++tried;
  }
  EXPECT_EQ(read_file(json_), "{\"older\": 1}");
  if (tried == 0) GTEST_SKIP() << "this file system has no such files";
}

TEST_F(OutputTest, FullStandardOutput_losesNothingElse) {
  expect_faults(run_in_shell(yamata(short_run({"--json", json_, "--csv", "/dev/full"})), ">/dev/full"), {"/dev/full", "standard output"});
  EXPECT_NE(read_file(json_), "");
  const Arguments perplexity{"perplexity", "-m", kModel, "-p", "Once upon a time there was a king", "-c", "4", "--json", csv_};
  expect_faults(run_in_shell(yamata(perplexity), ">/dev/full"), {"standard output"});
  EXPECT_NE(read_file(csv_), "");
  const Arguments simulate{"simulate", "--ranks", "2", "-n", "8", "--json", "/dev/full", "--csv", trace_};
  expect_faults(run_in_shell(yamata(simulate), ">/dev/full"), {"/dev/full", "standard output"});
  EXPECT_NE(read_file(trace_), "");
}

TEST_F(OutputTest, ReaderWhoLeaves_losesNoFile) {
  // standard output is a pipe that nobody reads
  const auto unread = [&](const Arguments& command) {
    const std::string pipe = "[ -p \"$0\" ] || mkfifo \"$0\"; exec 3<>\"$0\" 4>\"$0\" 3>&-; exec \"$@\" >&4 4>&-";
    Arguments all{"sh", "-c", pipe, folder_ / "pipe"};
    all.insert(all.end(), command.begin(), command.end());
    return run(all);
  };
  expect_faults(unread(yamata(short_run({"--json", json_}))), {"standard output"});
  EXPECT_NE(read_file(json_), "");
  expect_faults(unread(yamata({"simulate", "--ranks", "2", "-n", "8", "--csv", csv_})), {"standard output"});
  EXPECT_NE(read_file(csv_), "");
  EXPECT_EQ(unread(yamata(short_run())).code, 128 + SIGPIPE) << "no file would be lost";
}

TEST_F(OutputTest, FileOfStandardOutput_isNoOtherOutput) {
  const std::string file = folder_ / "both", link = folder_ / "link";
  std::filesystem::create_symlink(file, link);
  for (const auto& [path, ranks] : std::vector<std::pair<std::string, int>>{{file, 0}, {link, 0}, {"/dev/stdout", 0}, {file, 2}}) {
    const Outcome outcome = run_in_shell(yamata(short_run({"--json", path}), ranks), "> " + file);
    EXPECT_EQ(outcome.code, 1) << path;
    ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_NE(outcome.err.find(path + " is where standard output goes"), std::string::npos) << outcome.err;
  }
  const Outcome piped = run_in_shell(yamata(short_run({"--json", "/dev/stdout"})), "| cat");
  EXPECT_EQ(piped.code, 0) << piped.err;
}

TEST_F(OutputTest, FullStandardError_losesNoResult) {
  EXPECT_EQ(run_in_shell(yamata(short_run({"--json", json_})), "2>/dev/full").code, 0);
  EXPECT_NE(read_file(json_), "");
}

TEST_F(OutputTest, FullStandardOutputOfMpirun_isAFault) {
  for (const int ranks : {1, 2}) {
    std::filesystem::remove(json_);
    expect_faults(run_in_shell(yamata(short_run({"--json", json_}), ranks), ">/dev/full"), {"standard output"});
    EXPECT_NE(read_file(json_), "");
  }
}

TEST_F(OutputTest, FullDiskBehindMpirun_isAFault) {
  // A file system without a free block, visible only to the command.
  const std::string full = "mount -t tmpfs -o size=4k none '" + folder_ / "" + "' 2>/dev/null || exit 77; echo x >'" + folder_ / "fill" +
                           "'; exec \"$@\" >'" + folder_ / "out'";
  Arguments command{"unshare", "-m", "sh", "-c", full, "sh"};
  const Arguments job = yamata(short_run(), 2);
  command.insert(command.end(), job.begin(), job.end());
  const Outcome outcome = run(command);
  if (outcome.code == 77 || outcome.code == 127 || outcome.err.find("unshare: ") != std::string::npos)
    GTEST_SKIP() << "needs the right to mount";
  expect_faults(outcome, {"standard output"});
}

TEST_F(OutputTest, MappedFileThatTheSystemCannotRead_isNamedRatherThanTheOutput) {
  survive_lost_pages();
  constexpr std::size_t kBytes = 1 << 20;
  write_file(csv_, std::string(kBytes, 'x'));
  const int fd = open(csv_.c_str(), O_RDWR | O_CLOEXEC);
  void* const memory = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  {
    const std::span bytes(static_cast<const std::byte*>(memory), kBytes);
    const WatchedMapping watch(bytes, csv_);
    ASSERT_EQ(ftruncate(fd, 0), 0);
    NewFile file(json_);
    EXPECT_THROW(file.append(bytes), LostPages);
  }
  munmap(memory, kBytes);
  close(fd);
}

/// A process in the role of mpirun: its standard output is a file, into which the test writes.
class LauncherOutputTest : public testing::Test {
 protected:
  LauncherOutputTest() : file_(open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {
    write_bytes(100);  // the file is not empty at the beginning
    launcher_ = fork();
    if (launcher_ > 0) {
      waitpid(launcher_, nullptr, WUNTRACED);  // then its output is set up
      return;
    }
    dup2(file_, STDOUT_FILENO);
    raise(SIGSTOP);  // until it is killed
    _exit(1);
  }
  ~LauncherOutputTest() override {
    kill(launcher_, SIGKILL);
    waitpid(launcher_, nullptr, 0);
    close(file_);
  }
  void write_bytes(std::size_t n) const {
    const std::string bytes(n, 'x');
    ASSERT_EQ(write(file_, bytes.data(), n), static_cast<ssize_t>(n));
  }

  const TemporaryFolder folder_;
  int file_;
  pid_t launcher_ = -1;
};

TEST_F(LauncherOutputTest, WhatArrived_isNotLost) {
  const LauncherOutput output(launcher_);
  EXPECT_FALSE(output.loses(0));
  write_bytes(10);
  EXPECT_FALSE(output.loses(10));
}

TEST_F(LauncherOutputTest, WhatAFullFileLacks_isLost) {
  const LauncherOutput output(launcher_);
  write_bytes(10);
  const rlimit limit{110, 110};
  ASSERT_EQ(prlimit(launcher_, RLIMIT_FSIZE, &limit, nullptr), 0);
  EXPECT_FALSE(output.loses(10));
  EXPECT_TRUE(output.loses(11));
}

TEST_F(LauncherOutputTest, TextThatGoesElsewhere_isNotLost) {
  const LauncherOutput output(launcher_);
  EXPECT_FALSE(output.loses(10)) << "mpirun --output-filename FILE:nocopy";
}

TEST(LauncherOutput, WithoutStandardOutput_losesAll) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    dup2(ready[0], STDOUT_FILENO);  // as in mpirun, after `>&-`: the next file that it opened
    close(ready[1]);
    raise(SIGSTOP);
    _exit(1);
  }
  waitpid(launcher, nullptr, WUNTRACED);
  EXPECT_TRUE(LauncherOutput(launcher).loses(1));
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  close(ready[0]), close(ready[1]);
}

TEST(StandardOutput, FullPipeThatDoesNotBlock_isWaitedFor) {
  const TemporaryFolder folder;
  std::string words;
  for (int i = 0; i < 8000; ++i) words += "king ";
  write_file(folder / "words.txt", words);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  const pid_t program = fork();
  if (program == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", "exec \"$0\" tokenize -m \"$1\" -f \"$2\"", yamata({}).front().c_str(), kModel.c_str(),
          (folder / "words.txt").c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  siginfo_t end{};
  const auto ended = [&] { return waitid(P_PID, static_cast<id_t>(program), &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid != 0; };
  for (int waiting = 0; waiting < (1 << 16) && !ended();) ioctl(ends[0], FIONREAD, &waiting);
  EXPECT_FALSE(ended()) << "it waits for its reader";
  std::size_t bytes = 0;
  char part[4096];
  fcntl(ends[0], F_SETFL, 0);
  for (ssize_t count; (count = read(ends[0], part, sizeof part)) > 0;) bytes += static_cast<std::size_t>(count);
  int status = -1;
  waitpid(program, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(bytes, run(yamata({"tokenize", "-m", kModel, "-f", folder / "words.txt"})).out.size());
  close(ends[0]);
}

TEST_F(LauncherOutputTest, NoLauncher_losesNothing) { EXPECT_FALSE(LauncherOutput(0).loses(10)); }

}  // namespace
}  // namespace yamata::test
