// yamata quantize as users call it.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <thread>

#include "tests/gguf/support.hpp"
#include "tests/launch/process.hpp"

namespace yamata::test {
namespace {

std::size_t files_in(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()));
}

Outcome quantize(Arguments arguments, std::uint64_t largest_file = 0, int ranks = 0) {
  arguments.insert(arguments.begin(), "quantize");
  return run(yamata(arguments, ranks), largest_file);
}

TEST(Quantize, NewFile_runs) {
  const TemporaryFolder folder;
  const std::string small = folder / "small.gguf";
  const Outcome outcome = quantize({kModel, small, "q4_k", "1", "--allow-requantize"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(files_in(folder), 1u);
  EXPECT_LT(std::filesystem::file_size(small), std::filesystem::file_size(kModel) * 7 / 10);
  EXPECT_NE(run(yamata({"inspect", "-m", small})).out.find("Q4_K"), std::string::npos);
  const Outcome text = run(yamata({"run", "-m", small, "-p", "Once upon a time", "-n", "8"}));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_FALSE(text.out.empty());
}

TEST(Quantize, Nonsense_isNamedWithItsRemedyAndLeavesNothing) {
  const TemporaryFolder folder;
  const TemporaryFolder source_folder;
  const std::string out = folder / "out.gguf", source = source_folder / "source.gguf";
  std::filesystem::copy_file(kModel, source);
  struct Case {
    Arguments arguments;
    int code;
    std::string word;
  };
  const std::vector<Case> cases{
      {{kModel, out}, 1, "SRC DST TYPE"},
      {{kModel, out, "Q4_X"}, 1, "Q4_K_M, IQ4_NL"},
      {{kModel, out, "Q4_0", "two"}, 1, "'two'"},
      {{kModel, out, "Q4_0", "-t", "-1"}, 1, "-t"},
      {{kModel, out, "Q4_0", "--output-tensor-type", "Q4_K_M"}, 1, "--output-tensor-type"},
      {{kModel, out, "Q4_0", "--allow-requantize", "--leave-output-tensor", "--output-tensor-type", "Q8_0"}, 1, "leave one of them out"},
      {{source, source, "Q8_0"}, 1, "would be overwritten"},
      {{kModel, folder.path().string(), "Q8_0"}, 1, "is a folder"},
      {{kModel, out, "Q4_0"}, 2, "--allow-requantize"},
      {{kModel, out, "Q2_K_S", "--allow-requantize"}, 2, "--imatrix"},
      {{kModel, out, "Q4_0", "--allow-requantize", "--imatrix", kModel}, 2, "no importance matrix"},
      {{folder / "none.gguf", out, "Q4_0"}, 2, "none.gguf"},
      {{kModel, folder / "none/out.gguf", "Q8_0"}, 2, "check the folder"}};
  for (const Case& c : cases) {
    const Outcome outcome = quantize(c.arguments);
    EXPECT_EQ(outcome.code, c.code) << c.word;
    ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_NE(outcome.complaints()[0].find(c.word), std::string::npos) << outcome.err;
    EXPECT_EQ(files_in(folder), 0u) << c.word;
  }
}

TEST(Quantize, FullDisk_leavesWhatWasThere) {
  const TemporaryFolder folder;
  const std::string out = folder / "out.gguf";
  write_file(out, "GGUF, older");
  const Outcome outcome = quantize({kModel, out, "Q4_0", "--allow-requantize"}, 1 << 20);
  EXPECT_EQ(outcome.code, 2);
  ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  EXPECT_NE(outcome.complaints()[0].find("raise ulimit -f"), std::string::npos) << outcome.err;
  EXPECT_EQ(read_file(out), "GGUF, older");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(Quantize, SeveralRanks_areSentAway) {
  const TemporaryFolder folder;
  const Outcome outcome = quantize({kModel, folder / "out.gguf", "Q4_0", "--allow-requantize"}, 0, 2);
  EXPECT_NE(outcome.code, 0);
  ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  EXPECT_NE(outcome.complaints()[0].find("without mpirun"), std::string::npos);
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(Quantize, Interrupt_leavesNothing) {
  // A sparse model file of many gigabytes. Its rows are not whole blocks, so a note is printed when the work begins.
  const TemporaryFolder folder, target;
  const std::string source = folder / "source.gguf";
  constexpr std::uint64_t kRows = 40000000;
  const std::string header = gguf_test::sentencepiece_model().entry({"blk.0.ffn_up.weight", {96, kRows}, 0, 8 * 34 + 16}).finish();
  gguf_test::write_file(source, header);
  std::filesystem::resize_file(source, header.size() + 16 + kRows * 96 * sizeof(float));
  Process process(yamata({"quantize", source, target / "out.gguf", "Q4_K"}));
  while (process.err().find("note:") == std::string::npos) {
    ASSERT_EQ(kill(process.pid(), 0), 0);
    std::this_thread::yield();
  }
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(), 130) << process.err();
  EXPECT_EQ(files_in(target), 0u);
}

TEST(Quantize, DeviceAsAnImatrix_isNotReadForEver) {
  const TemporaryFolder folder;
  const Outcome outcome = quantize({kModel, folder / "out.gguf", "Q4_0", "--allow-requantize", "--imatrix", "/dev/zero"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.complaints(), std::vector<std::string>{"yamata: /dev/zero is not a file; check the path"}) << outcome.err;
}

}  // namespace
}  // namespace yamata::test
