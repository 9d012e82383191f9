// A single process: exit codes, messages, files.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "tests/launch/expect_fault.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

constexpr const char* kOpening = "Once upon a time";

TEST(CommandLine, Help_listsCommandsAndEveryCommandItsFlags) {
  const Outcome all = run(yamata({"--help"}));
  EXPECT_EQ(all.code, 0);
  for (const std::string command : {"run", "perplexity", "tokenize", "inspect", "bench", "features", "simulate"}) {
    EXPECT_NE(all.out.find(command), std::string::npos) << command;
    const Outcome one = run(yamata({command, "--help"}));
    EXPECT_EQ(one.code, 0);
    EXPECT_NE(one.out.find("--model"), std::string::npos) << command;
  }
  EXPECT_EQ(run(yamata({"--version"})).out.rfind("yamata ", 0), 0u);
}

TEST(CommandLine, BadUsage_isExitCode1) {
  expect_fault({"walk"}, 1, {"walk", "--help"});
  expect_fault({"run", "--fast"}, 1, {"fast", "--help"});
  expect_fault({"run", "-m", kModel}, 1, {"-p"});
  expect_fault({"run", "-p", "x"}, 1, {"-m"});
  expect_fault({"run", "-m", kModel, "-p", "x", "-n", "many"}, 1, {"many"});
  expect_fault({"run", "-m", kModel, "-p", "x", "-n", "0"}, 1, {"-n"});
  expect_fault({"run", "-m", kModel, "-p", "x", "--temp", "abc"}, 1, {"--temp", "abc"});
  expect_fault({"run", "-m", kModel, "-p", "x", "-temp", "0.8"}, 1, {"--temp"});
  expect_fault({"run", "-m", kModel, "-p", "x", "-n=5"}, 1, {"-n 5"});
  expect_fault({"run", "-m", kModel, "-p", "x", "-f", "y"}, 1, {"-p", "-f"});
  expect_fault({"run", "-m", kModel, "-p", "x", "--temp", "-1"}, 1, {"--temp"});
  expect_fault({"run", "-m", kModel, "-p", "x", "--layer-split", "0.5;0.5"}, 1, {"--layer-split"});
  expect_fault({"run", "-m", kModel, "-p", "x", "--layer-split", "0.5,0.5"}, 1, {"--layer-split"});
  expect_fault({"run", "-m", kModel, "-p", "x", "--cache-type", "q2"}, 1, {"--cache-type"});
  expect_fault({"run", "-m", kModel, "-p", "x", "-ctk", "q2"}, 1, {"-ctk", "q8_0"});
  expect_fault({"run", "-m", kModel, "-p", "x", "-ctv", "f64"}, 1, {"-ctv"});
  expect_fault({"run", "-m", kModel, "-p", "x", "--logits-checksum"}, 1, {"--logits-checksum", "--json"});
  const TemporaryFolder folder;
  expect_fault({"run", "-m", kModel, "-f", folder / "absent"}, 2, {folder / "absent"});
  expect_fault({"run", "-m", kModel, "-p", kOpening, "-c", "3"}, 1, {"-c"});
  expect_fault({"run", "-m", kModel, "-p", kOpening, "-c", "2000000000"}, 1, {"MiB", "-c"});
  expect_fault({"perplexity", "-m", kModel, "-p", "short", "-c", "512"}, 1, {"-c"});
}

TEST(CommandLine, ResultThatCannotBeWritten_isRefusedBeforeTheWork) {
  const TemporaryFolder folder;
  expect_fault({"run", "-m", kModel, "-p", "x", "--json", folder / "absent/r.json"}, 2, {folder / "absent/r.json"});
}

TEST(CommandLine, Folder_isNoPromptAndNoResult) {
  expect_fault({"run", "-m", kModel, "-f", "/tmp"}, 2, {"/tmp", "folder"});
  expect_fault({"run", "-m", kModel, "-p", "x", "--json", "/tmp"}, 1, {"/tmp", "folder"});
  const std::string endless(300, 'x');  // too long for a file name
  expect_fault({"run", "-m", endless, "-p", "x"}, 2, {endless, "too long"});
  expect_fault({"run", "-m", kModel, "-f", endless}, 2, {endless, "too long", "-f"});
  expect_fault({"run", "-m", kModel, "-p", "x", "--json", endless}, 2, {endless, "too long"});
}

TEST(CommandLine, ResultInPlaceOfTheModel_isRefused) {
  const TemporaryFolder folder;
  write_file(folder / "m.gguf", read_file(kModel));
  expect_fault({"run", "-m", folder / "m.gguf", "-p", "x", "--json", folder / "m.gguf"}, 1, {"overwritten"});
  EXPECT_EQ(read_file(folder / "m.gguf"), read_file(kModel));
}

TEST(CommandLine, PromptThatLooksLikeAFlag_isTakenAsItIs) {
  const auto ids = [](const std::string& text) { return run(yamata({"tokenize", "-m", kModel, "--ids", "-p", text})).out; };
  EXPECT_NE(ids("-np"), ids("--parallel"));
}

TEST(CommandLine, FullStandardOutput_isAFault) {
  const Outcome outcome = run({"sh", "-c", kProgram + " tokenize -m " + kModel + " -p x > /dev/full"});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(outcome.complaints().size(), 1u) << outcome.err;
}

TEST(CommandLine, DraftOnTheOnlyRank_guesses) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run(yamata({"run", "-m", kModel, "-md", test::source_path("/models/tales-draft-q8_0.gguf"), "--strategy", "pipeinfer", "--policy",
                  "dynamic-tree", "-p", kOpening, "-n", "40", "--ignore-eos", "--json", folder / "r.json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(read_file(folder / "r.json"));
  EXPECT_GT(json["accepted"].get<int>(), 0);
  EXPECT_EQ(json["finish_reason"], "length");
}

TEST(CommandLine, DraftOnTheOnlyRank_isUsedWithoutBeingAskedFor) {
  const TemporaryFolder folder;
  const Arguments job{"run", "-m", kModel, "-p", kOpening, "-n", "40", "--ignore-eos", "--json", folder / "r.json"};
  const Outcome alone = run(yamata(job));
  Arguments guessed = job;
  guessed.insert(guessed.end(), {"-md", test::source_path("/models/tales-draft-q8_0.gguf"), "--no-lookup"});
  Arguments fresh{"env", "XDG_CACHE_HOME=" + (folder / "cache")};  // without savings of earlier jobs, which may be losses
  for (const std::string& word : yamata(guessed)) fresh.push_back(word);
  const Outcome outcome = run(fresh);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.warnings().size(), 0u) << outcome.err;
  EXPECT_EQ(outcome.out, alone.out);
  const auto json = nlohmann::json::parse(read_file(folder / "r.json"));
  EXPECT_EQ(json["strategy"], "speculative");
  const auto drafted = json["per_rank"][0]["draft_run_s"].get<std::vector<double>>();
  EXPECT_GT(std::accumulate(drafted.begin(), drafted.end(), 0.0), 0) << "the prompt at least is drafted on";
}

TEST(CommandLine, PipeInferOnTheOnlyRank_isWarnedOf) {
  const Arguments job{"run", "--preset", "pipeinfer", "-m", kModel, "-md", test::source_path("/models/tales-draft-q8_0.gguf"),
                      "-p",  kOpening,   "-n",        "4"};
  const auto warnings = run(yamata(job)).warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("yamata: warning: --preset pipeinfer is for several ranks")) << warnings[0];
  EXPECT_EQ(run(yamata(job, 2)).warnings().size(), 0u);
}

TEST(CommandLine, DraftOfAnotherVocabulary_isRefusedWithTheTokenNamed) {
  const TemporaryFolder folder;
  std::string draft = read_file(test::source_path("/models/tales-draft-q8_0.gguf"));
  const Arguments job{"run", "-m", kModel, "-md", folder / "draft.gguf", "-p", "x", "-n", "4", "--strategy", "speculative"};
  const auto rename = [&](const std::string& from, const std::string& to) {
    const auto at = draft.find(from);
    ASSERT_NE(at, std::string::npos);
    draft.replace(at, from.size(), to);
    write_file(folder / "draft.gguf", draft);
  };
  rename("<0x41>", "<0x4z>");
  EXPECT_EQ(run(yamata(job)).code, 0) << "up to 128 may be the draft's own";
  for (int byte = 0; byte < 256; ++byte) {
    char number[3];
    std::snprintf(number, sizeof(number), "%02X", static_cast<unsigned>(byte));
    if (byte != 0x41) rename("<0x" + std::string(number) + ">", "<0y" + std::string(number) + ">");
  }
  expect_fault(job, 2, {"<0y00>", "256 of its tokens", "vocabulary"});
}

TEST(CommandLine, TensorThatNothingReads_isNamedByEveryCommand) {
  const TemporaryFolder folder;
  std::string model = read_file(kModel);
  const std::string key = "llama.block_count";
  const auto at = model.find(key);
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(model[at + key.size() + 4], 8);
  model[at + key.size() + 4] = 7;
  const std::string changed = folder / "model.gguf";
  write_file(changed, model);
  for (const Arguments& command : {Arguments{"run", "-m", changed, "-p", "x"},
                                   {"run", "-m", kModel, "-md", changed, "-p", "x", "--strategy", "speculative"},
                                   {"perplexity", "-m", changed, "-p", "some text"},
                                   {"quantize", changed, folder / "q.gguf", "Q8_0"}})
    expect_fault(command, 2, {changed, "tensor blk.7.", "is not supported"});
  EXPECT_NE(run(yamata({"inspect", "-m", changed})).complaints().at(0).find("tensor blk.7."), std::string::npos);
}

TEST(CommandLine, MinusOneToken_fillsTheContext) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run(yamata({"run", "-m", kModel, "-p", kOpening, "-n", "-1", "-c", "32", "--ignore-eos", "--json", folder / "r.json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(read_file(folder / "r.json"));
  EXPECT_EQ(json["finish_reason"], "context");
  EXPECT_EQ(json["token_ids"].size() + json["prompt_tokens"].get<std::size_t>(), 33u);
}

TEST(CommandLine, BadModel_isExitCode2) {
  const TemporaryFolder folder;
  const Arguments drafts_without_ranks{"-md", test::source_path("/models/tales-draft-q8_0.gguf"), "-md", folder / "absent.gguf"};
  Arguments command{"run", "-m", kModel, "-p", "x", "-n", "2"};
  command.insert(command.end(), drafts_without_ranks.begin(), drafts_without_ranks.end());
  expect_fault(command, 2, {folder / "absent.gguf"});
  write_file(folder / "empty.gguf", "");
  write_file(folder / "foreign.gguf", "PK\x03\x04 this is no model, whatever its name says");
  write_file(folder / "cut.gguf", read_file(kModel).substr(0, 1000000));
  expect_fault({"run", "-m", folder / "missing.gguf", "-p", "x"}, 2, {"missing.gguf"});
  expect_fault({"run", "-m", folder / "empty.gguf", "-p", "x"}, 2, {"empty.gguf", "empty"});
  expect_fault({"run", "-m", folder / "foreign.gguf", "-p", "x"}, 2, {"foreign.gguf", "GGUF"});
  expect_fault({"run", "-m", folder / "cut.gguf", "-p", "x"}, 2, {"cut.gguf"});
  expect_fault({"run", "-m", folder / "", "-p", "x"}, 2, {"not a file"});
  const std::string heads = test::source_path("/models/tales-medusa.safetensors");
  expect_fault({"run", "-m", kModel, "-md", heads, "-p", "x"}, 2, {heads, "--heads"});
}

TEST(CommandLine, Results_holdTextIdsAndEveryRank) {
  const TemporaryFolder folder;
  const Outcome outcome = run(yamata({"run", "-m", kModel, "-p", kOpening, "-n", "8", "--ignore-eos", "--logits-checksum", "--json",
                                      folder / "r.json", "--csv", folder / "r.csv"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(read_file(folder / "r.json"));
  EXPECT_EQ(json["text"].get<std::string>() + "\n", outcome.out);
  EXPECT_EQ(json["token_ids"].size(), 8u);
  EXPECT_EQ(json["generated_tokens"], 8);
  EXPECT_EQ(json["per_rank"].size(), 1u);
  EXPECT_EQ(json["per_rank"][0]["layers"], "0-7");
  EXPECT_EQ(json["logits_checksum"].get<std::string>().size(), 16u);
  const std::string csv = read_file(folder / "r.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
}

TEST(CommandLine, ContextBeyondTraining_isWarnedOf) {
  const auto err = [](const char* context) { return run(yamata({"run", "-m", kModel, "-p", kOpening, "-n", "2", "-c", context})).err; };
  EXPECT_EQ(err("1024").find("warning"), std::string::npos);
  EXPECT_NE(err("1025").find("warning: a context of 1025 tokens is more than the 1024"), std::string::npos);
}

TEST(CommandLine, FullContext_namesARemedyThatHelps) {
  std::string long_prompt;
  for (int i = 0; i < 1100; ++i) long_prompt += "and ";
  const auto said = [](const std::string& prompt, const char* context) {
    const Outcome outcome = run(yamata({"run", "-m", kModel, "-p", prompt, "-n", "1100", "--ignore-eos", "-c", context}));
    EXPECT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    return outcome.complaints().empty() ? "" : outcome.complaints()[0];
  };
  EXPECT_NE(said(kOpening, "32").find("context of 32 tokens is full; raise -c"), std::string::npos);
  EXPECT_NE(said(kOpening, "1024").find("context of 1024 tokens is full, and the model was trained for no longer text"), std::string::npos);
  EXPECT_NE(said(long_prompt, "32").find("the context holds 32; raise -c or shorten"), std::string::npos);
  EXPECT_NE(said(long_prompt, "1024").find("the context holds 1024, and the model was trained for no longer text; shorten"),
            std::string::npos);
}

TEST(CommandLine, FlagsForGuessingWithoutADraft_areWarnedOf) {
  const std::vector<std::string> plain{"run", "-m", kModel, "-p", kOpening, "-n", "2", "--ignore-eos"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = plain;
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(yamata(all));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_EQ(with({}).find("warning"), std::string::npos);
  EXPECT_NE(with({"-pa", "0.3"}).find("-pa does nothing without a draft model"), std::string::npos);
  EXPECT_NE(with({"--policy", "best-first", "--no-lookup"}).find("leave --no-lookup out"), std::string::npos);
  EXPECT_NE(with({"--policy", "chain"}).find("as this policy does not guess from the text"), std::string::npos);
  const std::vector<std::string> idle_draft{"--strategy", "iterative", "-md", test::source_path("/models/tales-draft-q8_0.gguf")};
  EXPECT_NE(with(idle_draft).find("-md does nothing with --strategy iterative"), std::string::npos);
  EXPECT_EQ(with({"--strategy", "pipeinfer", "--draft", "3"}).find("warning"), std::string::npos);
  EXPECT_NE(with({"--strategy", "pipeinfer", "--drafters", "3"}).find("--drafters does nothing without a draft model"), std::string::npos);
}

TEST(CommandLine, ThreadsThatAreNoNumber_areRefused) {
  for (const char* threads : {"many", "1,2", "-1", "2000", ""}) expect_fault({"run", "-m", kModel, "-p", "x", "-t", threads}, 1, {"-t"});
  expect_fault({"run", "-m", kModel, "-p", "x", "-t", "many"}, 1, {"-t", "measure"});
  expect_fault({"profile", "-t", "measure"}, 1, {"-t", "measure", "is not a number"});
}

TEST(CommandLine, FullDisk_keepsTheOlderResultAndSaysSo) {
  const TemporaryFolder folder;
  write_file(folder / "r.json", "{\"older\": 1}");
  const Outcome outcome = run(yamata({"run", "-m", kModel, "-p", kOpening, "-n", "40", "--ignore-eos", "--json", folder / "r.json"}), 1024);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  EXPECT_NE(outcome.complaints()[0].find("r.json"), std::string::npos) << outcome.err;
  EXPECT_EQ(read_file(folder / "r.json"), "{\"older\": 1}");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / ""), {}), 1) << "something half-written is left";
}

TEST(CommandLine, PromptBytes_areKeptThoughTheyAreNoText) {
  const TemporaryFolder folder;
  write_file(folder / "p", "caf\xC3\xA9 \xFF\xFE\x80 end");
  const Outcome ids = run(yamata({"tokenize", "-m", kModel, "-f", folder / "p", "--ids"}));
  EXPECT_EQ(ids.code, 0) << ids.err;
  EXPECT_EQ(run(yamata({"run", "-m", kModel, "-f", folder / "p", "-n", "4"})).code, 0);
}

TEST(CommandLine, Seed_fixesTheTextAndAnotherChangesIt) {
  const auto text = [](const std::string& seed) {
    return run(yamata({"run", "-m", kModel, "-p", kOpening, "-n", "24", "--temp", "1", "--seed", seed, "--ignore-eos"})).out;
  };
  EXPECT_EQ(text("7"), text("7"));
  EXPECT_NE(text("7"), text("8"));
}

TEST(CommandLine, Threads_changeNoBit) {
  const auto text = [](const std::string& threads) {
    const TemporaryFolder folder;
    EXPECT_EQ(run(yamata({"run", "-m", kModel, "-p", kOpening, "-n", "16", "-t", threads, "--ignore-eos", "--logits-checksum", "--json",
                          folder / "r.json"}))
                  .code,
              0);
    return nlohmann::json::parse(read_file(folder / "r.json"))["logits_checksum"].get<std::string>();
  };
  const std::string one = text("1");
  EXPECT_EQ(text("2"), one);
  EXPECT_EQ(text("5"), one);
}

TEST(CommandLine, CacheTypes_ofKeysAndOfValuesCount) {
  const auto checksum = [](std::vector<std::string> flags) {
    const TemporaryFolder folder;
    std::vector<std::string> words{
        "run", "-m", kModel, "-p", kOpening, "-n", "4", "--ignore-eos", "--logits-checksum", "--json", folder / "r.json"};
    words.insert(words.end(), flags.begin(), flags.end());
    EXPECT_EQ(run(yamata(words)).code, 0);
    return nlohmann::json::parse(read_file(folder / "r.json"))["logits_checksum"].get<std::string>();
  };
  const std::string both = checksum({"--cache-type", "q8_0"}), keys = checksum({"-ctk", "q8_0"});
  EXPECT_EQ(checksum({"-ctk", "q8_0", "-ctv", "q8_0"}), both);
  EXPECT_EQ(checksum({"--cache-type", "q8_0", "--cache-type-v", "f16"}), keys);
  EXPECT_NE(keys, both);
  EXPECT_NE(checksum({}), keys);
}

TEST(CommandLine, CtrlC_endsWithStatisticsAndCode130) {
  Process process(yamata({"run", "-m", kModel, "-p", kOpening, "-n", "1000000", "-c", "500000", "--ignore-eos"}));
  ASSERT_TRUE(process.wait_for_output(20)) << process.err();
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(), 130);
  EXPECT_NE(process.err().find("generated"), std::string::npos) << process.err();
}

TEST(CommandLine, SuffixStore_isWrittenEvenIfAnotherFileCannotBe) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run(yamata({"run", "-m", kModel, "-p", kOpening, "-n", "8", "--json", "/dev/full", "--suffix-store", folder / "s"}));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_GT(std::filesystem::file_size(folder / "s"), 0u);
}

}  // namespace
}  // namespace yamata::test
