// yamata quantize as users call it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

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

/// A sparse model file of many gigabytes. Its rows are not whole blocks, so a note is printed when the work begins.
void write_large_model(const std::string& path) {
  constexpr std::uint64_t kWidth = 480, kRows = 4000000, kTokens = 8;
  using gguf_test::kU32;
  gguf_test::Writer writer(3);
  writer.string("general.architecture", "llama").scalar<std::uint32_t>("llama.context_length", kU32, 64);
  writer.scalar<std::uint32_t>("llama.embedding_length", kU32, kWidth).scalar<std::uint32_t>("llama.block_count", kU32, 1);
  writer.scalar<std::uint32_t>("llama.feed_forward_length", kU32, kRows).scalar<std::uint32_t>("llama.attention.head_count", kU32, 2);
  writer.scalar<float>("llama.attention.layer_norm_rms_epsilon", gguf_test::kF32, 1e-5f).string("tokenizer.ggml.model", "llama");
  writer.strings("tokenizer.ggml.tokens", std::vector<std::string>(kTokens, "a"));
  std::uint64_t size = 0;
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> shape) {
    writer.entry({name + ".weight", shape, 0, size});
    size += sizeof(float) * shape[0] * (shape.size() > 1 ? shape[1] : 1);
  };
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) add(std::string("blk.0.") + name, {kWidth, kWidth});
  for (const char* name : {"blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"}) add(name, {kWidth});
  add("token_embd", {kWidth, kTokens});
  for (const char* name : {"blk.0.ffn_gate", "blk.0.ffn_up"}) add(name, {kWidth, kRows});
  add("blk.0.ffn_down", {kRows, kWidth});
  const std::string header = writer.finish();
  gguf_test::write_file(path, header);
  std::filesystem::resize_file(path, header.size() + 32 + size);
}

TEST(Quantize, Interrupt_leavesNothing) {
  const TemporaryFolder folder, target;
  const std::string source = folder / "source.gguf";
  write_large_model(source);
  Process process(yamata({"quantize", source, target / "out.gguf", "Q4_K"}));
  const auto runs = [&] {
    siginfo_t ended{};
    return waitid(P_PID, static_cast<id_t>(process.pid()), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
  };
  while (process.err().find("note:") == std::string::npos) {
    ASSERT_TRUE(runs()) << process.err();
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
