// A stopped or killed rank is named in one line, and the job ends with exit code 3.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>

#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

class ClusterLoss : public testing::TestWithParam<int> {
 protected:
  ClusterLoss()
      : process_(yamata({"run", "-m", kModel, "-p", kPrompt, "-n", "1000000", "-c", "500000", "--ignore-eos", "--timeout", "3"}, 3)) {}
  /// Waits for text, sends the signal to the rank, and expects exit code 3 with one line that contains `words`.
  void strike(int signal, const std::string& words) {
    ASSERT_TRUE(process_.wait_for_output(20)) << process_.err();
    const pid_t victim = process_of_rank(process_.pid(), GetParam());
    ASSERT_EQ(kill(victim, signal), 0);
    EXPECT_EQ(process_.wait(), 3) << process_.err();
    const auto complaints = Outcome{0, "", process_.err()}.complaints();
    ASSERT_EQ(complaints.size(), 1u) << process_.err();
    EXPECT_NE(complaints[0].find(words), std::string::npos) << complaints[0];
    EXPECT_NE(complaints[0].find("rank " + std::to_string(GetParam()) + " "), std::string::npos) << complaints[0];
  }
  Process process_;
};

TEST_P(ClusterLoss, KilledRank_isNamed) { strike(SIGKILL, "was killed by signal 9"); }
TEST_P(ClusterLoss, StoppedRank_isNamed) { strike(SIGSTOP, "has been silent for 3 s"); }

INSTANTIATE_TEST_SUITE_P(Ranks, ClusterLoss, testing::Values(0, 1, 2));

/// Rank 0 alone holds the target, so that no rank watches it which the job needs.
TEST(Cluster, StoppedHeadOfADrafter_isNamed_andWritesNoResults) {
  const TemporaryFolder folder;
  for (const bool guard : {false, true}) {
    Process process(yamata({"run", "-m", kModel, "-md", test::source_path("/models/tales-draft-q8_0.gguf"), "-p", kPrompt, "-n", "1000000",
                            "-c", "500000", "--ignore-eos", "--timeout", "2", "--layer-split", "1/1", "--json", folder / "x.json"},
                           2));
    ASSERT_TRUE(process.wait_for_output(20)) << process.err();
    const pid_t head = process_of_rank(process.pid(), 0);
    kill(guard ? parent_of(head) : head, SIGSTOP);
    EXPECT_EQ(process.wait(), 3) << process.err();
    const auto complaints = Outcome{0, "", process.err()}.complaints();
    ASSERT_EQ(complaints.size(), 1u) << process.err();
    EXPECT_EQ(complaints[0].find("yamata: rank 0 "), 0u) << complaints[0];
    EXPECT_EQ(process.err().find("generated at"), std::string::npos) << process.err();
    EXPECT_FALSE(std::filesystem::exists(folder / "x.json"));
  }
}

/// The process of a rank, as soon as its guard has started it; -1 if the command ends before.
pid_t started_rank(const Process& process, int rank) {
  while (!process.ended()) {
    try {
      const pid_t pid = process_of_rank(process.pid(), rank);
      if (read_file("/proc/" + std::to_string(parent_of(pid)) + "/comm") == "yamata-guard\n") return pid;
    } catch (const std::runtime_error&) {  // it does not exist yet
    }
  }
  return -1;
}

class StoppedAtTheStart : public testing::TestWithParam<int> {};

TEST_P(StoppedAtTheStart, Rank_isNamed) {
  Process process(yamata({"run", "-m", kModel, "-p", kPrompt, "-n", "1000000", "-c", "500000", "--ignore-eos", "--timeout", "2"}, 3));
  const pid_t victim = started_rank(process, GetParam());
  ASSERT_GT(victim, 0) << process.err();
  kill(victim, SIGSTOP);
  EXPECT_EQ(process.wait(), 3) << process.err();
  const auto complaints = Outcome{0, "", process.err()}.complaints();
  ASSERT_EQ(complaints.size(), 1u) << process.err();
  EXPECT_NE(complaints[0].find("rank " + std::to_string(GetParam()) + " "), std::string::npos) << complaints[0];
}

INSTANTIATE_TEST_SUITE_P(Ranks, StoppedAtTheStart, testing::Values(0, 1, 2));

}  // namespace
}  // namespace yamata::test
