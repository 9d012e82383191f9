// Several ranks under mpirun write the same text, and end with one line and exit code 3 when a rank is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

nlohmann::json result_of(int ranks, Arguments extra = {}) {
  const TemporaryFolder folder;
  Arguments arguments{"run", "-m",     kModel,           "-p", kPrompt, "-n", "32", "--ignore-eos", "--logits-checksum", "-t",
                      "1",   "--json", folder / "r.json"};
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  const Outcome outcome = run(yamata(arguments, ranks));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return nlohmann::json::parse(read_file(folder / "r.json"));
}

TEST(Cluster, AnyNumberOfRanks_givesTheSameBits) {
  const auto alone = result_of(0);
  for (const int ranks : {1, 2, 4, 8}) {
    const auto together = result_of(ranks);
    EXPECT_EQ(together["logits_checksum"], alone["logits_checksum"]) << ranks;
    EXPECT_EQ(together["token_ids"], alone["token_ids"]) << ranks;
    EXPECT_EQ(together["per_rank"].size(), static_cast<std::size_t>(ranks));
  }
  EXPECT_EQ(result_of(3, {"--layer-split", "0.6,0.2,0.2", "-b", "2"})["logits_checksum"], alone["logits_checksum"]);
  for (const char* split : {"measure", "bytes"})
    EXPECT_EQ(result_of(2, {"--layer-split", split})["logits_checksum"], alone["logits_checksum"]) << split;
}

TEST(Cluster, Ranks_touchOnlyTheirOwnLayers) {
  const auto result = result_of(4);
  const auto sum = [&](const char* what) {
    double total = 0;
    for (const auto& rank : result["per_rank"]) total += rank[what].get<double>();
    return total;
  };
  const auto file_bytes = static_cast<double>(std::filesystem::file_size(kModel));
  // Here the output matrix is the embedding, and is on the first and the last rank; pages are mapped in groups of sixteen.
  EXPECT_LT(sum("mapped_bytes"), 1.5 * file_bytes);
  for (const auto& rank : result["per_rank"]) {
    EXPECT_LT(rank["mapped_bytes"].get<double>(), 0.6 * file_bytes) << rank;
    EXPECT_GT(rank["rss_bytes"].get<double>(), 0) << rank;
  }
}

TEST(Cluster, MoreRanksThanLayers_isRefusedOnce) {
  const Outcome outcome = run(yamata({"run", "-m", kModel, "-p", "x"}, 9));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(outcome.complaints().size(), 1u) << outcome.err;
}

TEST(Cluster, BadSplit_isComplainedOfOnce) {
  const Outcome outcome = run(yamata({"run", "-m", kModel, "-p", "x", "--layer-split", "0.5,0.5"}, 3));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(outcome.complaints().size(), 1u) << outcome.err;
}

/// Number of tokens that were the draft's first choice.
std::ptrdiff_t first_choices(const nlohmann::json& run) {
  return std::ranges::count_if(run["choices"], [](const auto& choices) { return choices["accepted"] == 0; });
}

/// Checks the draft's recorded choices for each token.
void expect_choices(const nlohmann::json& run) {
  EXPECT_EQ(run["prompt_token_ids"].size(), run["prompt_tokens"]);
  ASSERT_EQ(run["choices"].size(), run["token_ids"].size());
  for (const auto& choices : run["choices"]) {
    const auto probabilities = choices["probabilities"].get<std::vector<double>>();
    EXPECT_TRUE(std::is_sorted(probabilities.rbegin(), probabilities.rend()));
    if (choices["accepted"].is_null()) continue;
    ASSERT_LT(choices["accepted"].get<std::size_t>(), probabilities.size());
  }
  if (run["strategy"] == "speculative") {
    EXPECT_GT(first_choices(run), 0);  // with other strategies, the text does not wait for the draft
  }
}

/// A result with guesses. The text is long enough for its drafter to get some processor time: the head does not wait for it, so a busy
/// machine may generate many tokens before that.
nlohmann::json guessed_result(int ranks, Arguments flags) {
  constexpr int kLongest = 2048;
  flags.insert(flags.end(), {"-c", std::to_string(kLongest + 64), "-n", "32"});
  for (int tokens = 32;; tokens *= 4) {
    flags.back() = std::to_string(tokens);
    auto result = result_of(ranks, flags);
    const bool by_the_draft = result["strategy"] != "speculative" || first_choices(result) > 0;  // suffixes of the text guess, too
    if ((result["drafted"] > 0 && by_the_draft) || tokens >= kLongest) return result;
  }
}

TEST(Cluster, WhateverGuesses_theTextIsTheSame) {
  std::map<std::size_t, nlohmann::json> alone;  // by the number of tokens
  const std::string draft = test::source_path("/models/tales-draft-q8_0.gguf");
  const std::vector<std::pair<int, Arguments>> jobs{{2, {"--strategy", "speculative", "--layer-split", "0.5,0.5"}},
                                                    {3, {"--strategy", "speculative"}},
                                                    {4, {}},
                                                    {4, {"--policy", "chain", "-np", "3", "-ps", "0.05"}},
                                                    {4, {"--no-async"}},
                                                    {4, {"--cancel-route", "backward"}},
                                                    {4, {"--no-cancel"}},
                                                    {4, {"--no-continuous"}},
                                                    {4, {"--no-tree-reuse"}},
                                                    {4, {"--no-multibuffer"}},
                                                    {4, {"--drafters", "2"}},
                                                    {3, {"--policy", "multi-sequence", "--budget", "12"}},
                                                    {5, {"--layer-split", "0.4,0.3,0.3/0.5,0.5"}}};
  for (const auto& [ranks, flags] : jobs) {
    Arguments arguments{"-md", draft};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const auto guessed = guessed_result(ranks, arguments);
    const std::size_t tokens = guessed["token_ids"].size();
    if (!alone.contains(tokens)) alone[tokens] = result_of(0, {"-c", "2112", "-n", std::to_string(tokens)});
    const std::string name = flags.empty() ? "pipeinfer" : flags[0] + " " + flags.back();
    EXPECT_EQ(guessed["logits_checksum"], alone[tokens]["logits_checksum"]) << name;
    EXPECT_EQ(guessed["token_ids"], alone[tokens]["token_ids"]) << name;
    EXPECT_GT(guessed["drafted"].get<int>(), 0) << name;
    EXPECT_LE(guessed["accepted"].get<int>(), guessed["drafted"].get<int>()) << name;
    expect_choices(guessed);
  }
}

TEST(Cluster, LookaheadDecoding_givesTheSameText) {
  const auto alone = result_of(0, {"-n", "120"});
  for (const int ranks : {0, 3}) {
    const auto guessed = result_of(ranks, {"-n", "120", "--preset", "lookahead"});
    EXPECT_EQ(guessed["logits_checksum"], alone["logits_checksum"]) << ranks;
    EXPECT_EQ(guessed["token_ids"], alone["token_ids"]) << ranks;
    EXPECT_GT(guessed["accepted"].get<int>(), 0) << ranks;
  }
}

TEST(Cluster, TextThatRepeatsItself_isGuessedWithoutADraft) {
  const auto alone = result_of(0, {"-n", "120"});
  for (const int ranks : {0, 3}) {
    for (const std::string policy : {"best-first", "dynamic-tree"}) {
      const auto guessed = result_of(ranks, {"-n", "120", "--strategy", "pipeinfer", "--policy", policy});
      EXPECT_EQ(guessed["logits_checksum"], alone["logits_checksum"]) << ranks << policy;
      EXPECT_EQ(guessed["token_ids"], alone["token_ids"]) << ranks << policy;
      // best-first sends only guesses that are worth their cost on this machine; this may be none.
      if (policy == "dynamic-tree") {
        EXPECT_GT(guessed["accepted"].get<int>(), 0) << ranks;
      }
    }
  }
}

/// Processor time of a process, in hundredths of a second.
long cpu_ticks(pid_t process) {
  std::istringstream stat(read_file("/proc/" + std::to_string(process) + "/stat"));
  std::string word;
  for (int field = 1; field < 14; ++field) stat >> word;
  long user = 0, system = 0;
  stat >> user >> system;
  return user + system;
}

TEST(Cluster, LostDrafter_isMissedInOneLineAndTheTextGoesOn) {
  Process process(yamata({"run", "-m", kModel, "-md", test::source_path("/models/tales-draft-q8_0.gguf"), "-p", kPrompt, "-n", "2000", "-c",
                          "3000", "--ignore-eos", "--timeout", "2"},
                         3));
  ASSERT_TRUE(process.wait_for_output(200)) << process.err();
  kill(process_of_rank(process.pid(), 2), SIGKILL);
  EXPECT_EQ(process.wait(), 0) << process.err();
  const Outcome alone = run(yamata({"run", "-m", kModel, "-p", kPrompt, "-n", "2000", "-c", "3000", "--ignore-eos"}));
  EXPECT_EQ(process.out(), alone.out);
  EXPECT_NE(process.err().find(" without the drafter on rank 2"), std::string::npos) << process.err();  // the text goes on, or the job ends
  EXPECT_NE(process.err().find("yamata: warning: rank 2 "), std::string::npos) << process.err();
  EXPECT_NE(process.err().find("was killed by signal 9"), std::string::npos) << process.err();
}

TEST(Cluster, LostStage_isNoInterrupt) {
  const TemporaryFolder folder;
  Process process(yamata({"run", "-m", kModel, "-p", kPrompt, "-n", "2000", "-c", "3000", "--ignore-eos", "--layer-split", "0.4,0.3,0.3",
                          "--json", folder / "r.json"},
                         3));
  ASSERT_TRUE(process.wait_for_output(200)) << process.err();
  const pid_t head = process_of_rank(process.pid(), 0), stage = process_of_rank(process.pid(), 1);
  kill(stage, SIGKILL);
  while (kill(stage, 0) == 0) usleep(1000);
  kill(head, SIGTERM);  // as mpirun does soon, but here before the head knows
  EXPECT_EQ(process.wait(), 3) << process.err();
  EXPECT_EQ(process.err().find("interrupted"), std::string::npos) << process.err();
  EXPECT_NE(process.err().find("yamata: rank 1 "), std::string::npos) << process.err();
  EXPECT_FALSE(std::filesystem::exists(folder / "r.json"));
}

Arguments long_acceptance() {
  return yamata({"acceptance", "-m", kModel, "-md", test::source_path("/models/tales-draft-q8_0.gguf"), "-f",
                 test::source_path("/launch/experiments/tales.jsonl"), "-n", "400", "--timeout", std::to_string(10 * patience())},
                3);
}

/// Waits until rank 2 has started and drafts; then the head and that rank. Zeros if the job ends before.
std::pair<pid_t, pid_t> await_drafting(Process& process) {
  while (!process.ended()) {
    try {
      const pid_t drafter = process_of_rank(process.pid(), 2);
      if (cpu_ticks(drafter) > 50 * patience()) return {process_of_rank(process.pid(), 0), drafter};  // loading takes less
    } catch (const std::runtime_error&) {
    }
  }
  return {};
}

TEST(Cluster, InterruptedAcceptance_showsTheRatesSoFar) {
  Process process(long_acceptance());
  const auto [head, drafter] = await_drafting(process);
  ASSERT_NE(head, 0) << process.err();
  kill(head, SIGTERM);
  EXPECT_EQ(process.wait(), 130) << process.err();
  EXPECT_NE(process.err().find("yamata: interrupted after "), std::string::npos) << process.err();
  EXPECT_NE(process.out().find("draft model"), std::string::npos) << process.out();
}

TEST(Cluster, AcceptanceThatLosesItsDrafter_failsInsteadOfMeasuringLess) {
  Process process(long_acceptance());
  const auto [head, drafter] = await_drafting(process);
  ASSERT_NE(drafter, 0) << process.err();
  kill(drafter, SIGKILL);
  while (kill(drafter, 0) == 0) usleep(1000);
  kill(head, SIGTERM);  // as mpirun does soon, but here before the head knows
  EXPECT_EQ(process.wait(), 3) << process.err();
  const auto complaints = Outcome{3, "", process.err()}.complaints();
  ASSERT_EQ(complaints.size(), 1u) << process.err();
  EXPECT_EQ(complaints[0].find("yamata: rank 2 "), 0u) << process.err();
  EXPECT_NE(complaints[0].find("was killed by signal 9"), std::string::npos) << process.err();
  EXPECT_EQ(process.out(), "");
}

TEST(Cluster, DrafterThatWasGivenUp_doesNotEndTheJobWhenItGoesOn) {
  Process process(yamata({"run", "-m", kModel, "-md", test::source_path("/models/tales-draft-q8_0.gguf"), "-p", kPrompt, "-n", "1000000",
                          "-c", "500000", "--ignore-eos", "--timeout", "2"},
                         2));
  ASSERT_TRUE(process.wait_for_output(20)) << process.err();
  const pid_t drafter = process_of_rank(process.pid(), 1);
  kill(drafter, SIGSTOP);
  std::size_t written = 1000;
  for (; process.err().find("goes on without the drafter on rank 1") == std::string::npos; written += 1000) {
    ASSERT_TRUE(process.wait_for_output(written)) << process.err();
  }
  kill(drafter, SIGCONT);
  const auto twice_the_timeout = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  for (; std::chrono::steady_clock::now() < twice_the_timeout; written += 100) {
    ASSERT_TRUE(process.wait_for_output(written)) << process.err();
  }
  EXPECT_EQ(process.err().find("rank 0"), std::string::npos) << process.err();
  kill(process.pid(), SIGINT);
  process.wait();
}

/// A job with two ranks with these flags, and a last rank with other flags.
Outcome run_with_last(const Arguments& flags, const Arguments& last) {
  Arguments command = yamata(flags, 2);
  command.insert(command.end(), {":", "-np", "1"});
  const Arguments other = yamata(last);
  command.insert(command.end(), other.begin(), other.end());
  return run(command);
}

TEST(Cluster, RankWithoutTheDraft_isAStageAndAnotherDrafts) {
  const TemporaryFolder folder;
  const auto flags = [&](const std::string& target, const std::string& draft) {
    // The default policy sends only guesses that are worth their cost on this machine; this may be none.
    return Arguments{"run",      "--fetch",        "never", "-m",    target, "-md", draft,          "--strategy", "speculative",
                     "--policy", "dynamic-tree",   "-p",    kPrompt, "-n",   "16",  "--ignore-eos", "-t",         "1",
                     "--json",   folder / "r.json"};
  };
  const std::string draft = test::source_path("/models/tales-draft-q8_0.gguf");
  const Outcome outcome = run_with_last(flags(kModel, draft), flags(kModel, folder / "absent.gguf"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto result = nlohmann::json::parse(read_file(folder / "r.json"));
  EXPECT_EQ(result["per_rank"][1]["role"], "drafter");
  EXPECT_EQ(result["per_rank"][2]["role"], "stage");
  EXPECT_GT(result["accepted"].get<int>(), 0);

  const Outcome neither = run_with_last(flags(kModel, draft), flags(folder / "no-target.gguf", folder / "absent.gguf"));
  EXPECT_EQ(neither.code, 2) << neither.err;
  ASSERT_EQ(neither.complaints().size(), 1u) << neither.err;
  EXPECT_NE(neither.complaints()[0].find("rank 2"), std::string::npos) << neither.err;
}

TEST(Cluster, GroupOfDifferentInstructionSets_givesTheBitsOfOneRank) {
  const auto alone = result_of(0);
  const TemporaryFolder folder;
  const Arguments flags{
      "run",     "-m",     kModel,           "-p", kPrompt, "-n", "32", "--ignore-eos", "--logits-checksum", "-t", "1", "--layer-split",
      "0.5+0.5", "--json", folder / "r.json"};
  Arguments command = yamata(flags, 1), other = yamata(flags);
  command.insert(command.end(), {":", "-np", "1", "env", "YAMATA_ISA=scalar"});
  command.insert(command.end(), other.begin(), other.end());
  const Outcome outcome = run(command);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto result = nlohmann::json::parse(read_file(folder / "r.json"));
  EXPECT_EQ(result["per_rank"][1]["isa"], "scalar");
  EXPECT_NE(result["per_rank"][0]["isa"], "scalar") << "this machine has nothing else: then the test says nothing";
  EXPECT_EQ(result["logits_checksum"], alone["logits_checksum"]);
  EXPECT_EQ(result["token_ids"], alone["token_ids"]);
}

TEST(Cluster, ExchangesOfAGroup_areSlicesOfItsTrace) {
  const TemporaryFolder folder;
  const Outcome outcome = run(yamata(
      {"run", "-m", kModel, "-p", kPrompt, "-n", "4", "--ignore-eos", "-t", "1", "--layer-split", "0.5+0.5", "--trace", folder / "t.json"},
      2));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::map<int, int> exchanges, runs;
  const auto trace = nlohmann::json::parse(read_file(folder / "t.json"));
  for (const auto& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "run") ++runs[event["pid"].get<int>()];
    if (event.value("cat", "") != "exchange") continue;
    ++exchanges[event["pid"].get<int>()];
    EXPECT_EQ(event["name"], "exchange");
  }
  ASSERT_GT(runs[0], 0);
  EXPECT_EQ(exchanges[0], exchanges[1]);
  EXPECT_GE(exchanges[0], runs[0] * 8 * 4) << "eight layers, four exchanges each";
}

TEST(Cluster, BadFlag_isComplainedOfOnce) {
  const Outcome outcome = run(yamata({"run", "-m", kModel, "-p", "x", "--fast"}, 3));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(outcome.complaints().size(), 1u) << outcome.err;
}

TEST(Cluster, MissingFileOnOneRank_isNamed) {
  const TemporaryFolder folder;
  const Outcome outcome = run_with_last({"run", "-m", kModel, "-p", "x", "--fetch", "never"},
                                        {"run", "-m", folder / "absent.gguf", "-p", "x", "--fetch", "never"});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  EXPECT_NE(outcome.complaints()[0].find("rank 2"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.complaints()[0].find("absent.gguf"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace yamata::test
