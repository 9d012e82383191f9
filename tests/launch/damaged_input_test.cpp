// Model files that are truncated while they are in use: one line with the rank and the file, and exit code 2.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

class TruncatedModel : public testing::Test {
 protected:
  TruncatedModel() : model_(folder_ / "model.gguf"), draft_(folder_ / "draft.gguf") {
    std::filesystem::copy_file(kModel, model_);
    std::filesystem::copy_file(kDraft, draft_);
  }

  /// An endless text, with weights that are read from the file for each token.
  Arguments endless(const Arguments& more = {}) const {
    Arguments arguments{"run", "-m",     model_,         "-p",          kPrompt,     "-n", "1000000",
                        "-c",  "500000", "--ignore-eos", "--no-repack", "--timeout", "20"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static void truncate(const std::string& path) { std::filesystem::resize_file(path, 0); }

  static void expect_fault(Process& process, const std::vector<std::string>& words) {
    EXPECT_EQ(process.wait(), 2) << process.err();
    const auto complaints = Outcome{0, "", process.err()}.complaints();
    ASSERT_EQ(complaints.size(), 1u) << process.err();
    for (const std::string& word : words) EXPECT_NE(complaints[0].find(word), std::string::npos) << word << " in " << complaints[0];
  }

  const TemporaryFolder folder_;
  const std::string model_, draft_;
};

TEST_F(TruncatedModel, OnOneMachine_isNamed) {
  Process process(yamata(endless()));
  ASSERT_TRUE(process.wait_for_output(20)) << process.err();
  truncate(model_);
  expect_fault(process, {"yamata: " + model_ + " was truncated"});
}

TEST_F(TruncatedModel, OfSeveralRanks_isNamedOnceWithARank) {
  Process process(yamata(endless(), 3));
  ASSERT_TRUE(process.wait_for_output(20)) << process.err();
  truncate(model_);
  expect_fault(process, {"rank ", "(", model_ + " was truncated"});
}

TEST_F(TruncatedModel, OfOneRankAlone_isNamedWithThatRank) {
  std::filesystem::copy_file(kModel, folder_ / "other.gguf");
  Arguments command = yamata(endless(), 2);
  Arguments last = endless();
  last[2] = folder_ / "other.gguf";
  last = yamata(last);
  command.insert(command.end(), {":", "-np", "1"});
  command.insert(command.end(), last.begin(), last.end());
  Process process(command);
  ASSERT_TRUE(process.wait_for_output(20)) << process.err();
  truncate(folder_ / "other.gguf");
  expect_fault(process, {"rank 2 (", folder_ / "other.gguf was truncated"});
}

TEST_F(TruncatedModel, OfADrafter_isMissedAndTheTextGoesOn) {
  Process process(yamata({"run", "-m", model_, "-md", draft_, "-p", kPrompt, "-n", "500", "-c", "1000", "--ignore-eos", "--no-repack"}, 3));
  ASSERT_TRUE(process.wait_for_output(20)) << process.err();
  truncate(draft_);
  EXPECT_EQ(process.wait(), 0) << process.err();
  const Outcome outcome{0, "", process.err()};
  EXPECT_EQ(outcome.complaints().size(), 0u) << process.err();
  const auto warnings = outcome.warnings();
  ASSERT_EQ(warnings.size(), 1u) << process.err();
  EXPECT_NE(warnings[0].find("the text goes on without the drafter on rank"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find(draft_ + " was truncated"), std::string::npos) << warnings[0];
  EXPECT_EQ(process.out(), run(yamata({"run", "-m", kModel, "-p", kPrompt, "-n", "500", "-c", "1000", "--ignore-eos"})).out);
}

TEST_F(TruncatedModel, OfBench_isNamed) {
  Process process(yamata({"bench", "-m", model_, "-p", "0", "-n", "1", "-n", "1000000", "-r", "1", "--no-repack", "-o", "jsonl"}));
  ASSERT_TRUE(process.wait_for_output(20)) << process.err();
  truncate(model_);
  expect_fault(process, {model_ + " was truncated"});
}

TEST_F(TruncatedModel, OfQuantize_isNamedAndItsFileIsNotDone) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  Process process(yamata({"quantize", "--allow-requantize", model_, "/dev/fd/" + std::to_string(pipe_ends[1]), "Q4_0"}));
  close(pipe_ends[1]);
  char bytes[4096];
  ASSERT_GT(read(pipe_ends[0], bytes, sizeof(bytes)), 0);  // it has started, and is blocked because the pipe is full
  truncate(model_);
  while (read(pipe_ends[0], bytes, sizeof(bytes)) > 0) {
  }
  close(pipe_ends[0]);
  expect_fault(process, {"yamata: " + model_ + " was truncated"});
}

TEST(DamagedInput, PipeAsAModelOrHeads_isRefusedInsteadOfWaitedFor) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const Arguments& files : {Arguments{"-m", pipe}, Arguments{"-m", kModel, "--heads", pipe}}) {
    Arguments job{"run", "-p", "x", "-n", "1"};
    job.insert(job.end(), files.begin(), files.end());
    const Outcome outcome = run(yamata(job));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("is not a file"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace yamata::test
