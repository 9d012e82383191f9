// Heads as users run them: the text is the target's own for any guess source, and unsuitable files are refused in one line.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/draft_heads/changed_draft_heads.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"
#include "tests/thorough.hpp"

namespace yamata::test {
namespace {

const std::string kMedusa = test::source_path("/models/tales-medusa.safetensors");
const std::string kDgf = test::source_path("/models/tales-dgf.safetensors");

nlohmann::json result_of(int ranks, Arguments extra) {
  const TemporaryFolder folder;
  Arguments arguments{
      "run", "-m",     kModel,           "-p", "There was once a poor miller", "-n", "64", "--ignore-eos", "--logits-checksum", "-t",
      "1",   "--json", folder / "r.json"};
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  const Outcome outcome = run(yamata(arguments, ranks));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.code == 0 ? nlohmann::json::parse(read_file(folder / "r.json")) : nlohmann::json{};
}

TEST(DraftHeads, WhicheverGuess_theTextIsTheSame) {
  const std::vector<std::pair<int, Arguments>> jobs{{0, {"--heads", kMedusa}},
                                                    {0, {"--heads", kDgf}},
                                                    {0, {"--heads", kDgf, "--heads-quant", "stored", "--strategy", "pipeinfer"}},
                                                    {0, {"--heads", kDgf, "--heads-quant", "q4_0"}},
                                                    {0, {"--heads", kDgf, "--heads", kMedusa, "-md", kDraft}},
                                                    {0, {"--heads", kDgf, "--policy", "chain"}},
                                                    {1, {"--heads", kMedusa, "--strategy", "pipeinfer"}},
                                                    {2, {"--heads", kDgf}},
                                                    {3, {"--heads", kDgf, "--strategy", "speculative"}},
                                                    {3, {"--heads", kMedusa, "--layer-split", "0.5,0.5/1", "--strategy", "speculative"}},
                                                    {2, {"--heads", kDgf, "--layer-split", "0.5+0.5"}},
                                                    {4, {"--heads", kDgf, "--layer-split", "0.4,0.3,0.3/1"}},
                                                    {4, {"--heads", kMedusa, "-md", kDraft}},
                                                    {5, {"--heads", kDgf, "--no-tree-reuse"}}};
  for (const Arguments& sampling : {Arguments{}, Arguments{"--temp", "0.8", "-s", "7"}}) {
    const auto alone = result_of(0, sampling);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (!thorough() && (i % 2 == 0) != sampling.empty()) continue;  // every day, each job has one sampling
      const auto& [ranks, flags] = jobs[i];
      Arguments arguments = flags;
      arguments.insert(arguments.end(), sampling.begin(), sampling.end());
      const auto guessed = result_of(ranks, arguments);
      const std::string name = std::to_string(ranks) + " ranks, " + flags[1] + " " + flags.back();
      EXPECT_EQ(guessed["logits_checksum"], alone["logits_checksum"]) << name;
      EXPECT_EQ(guessed["token_ids"], alone["token_ids"]) << name;
      const auto sends = [](const auto& rank) { return rank["feature_bytes"] > 0; };
      const bool several_stages = ranks > 1 && flags.back() != "0.5+0.5";
      EXPECT_EQ(std::any_of(guessed["per_rank"].begin(), guessed["per_rank"].end(), sends), several_stages) << name;
      // Rank 0 only sends features to heads on a rank of their own: whole hidden states, at most one per token of the text.
      const bool own_rank = std::any_of(flags.begin(), flags.end(), [](const std::string& flag) { return flag.ends_with("/1"); });
      const auto sent = guessed["per_rank"][0]["feature_bytes"].get<std::uint64_t>();
      const std::uint64_t hidden_bytes = 256 * sizeof(float), tokens = guessed["prompt_tokens"].get<std::uint64_t>() + 64;
      EXPECT_EQ(sent > 0, own_rank) << name;
      EXPECT_EQ(sent % hidden_bytes, 0u) << name;
      EXPECT_LT(sent, tokens * hidden_bytes) << name;
    }
  }
}

/// A tree of a fixed size is filled at any cost, so its acceptance does not depend on time.
TEST(DraftHeads, TreesOfAGivenSize_areMadeOfGoodGuesses) {
  const auto played = [](Arguments flags, Arguments sampling) {
    flags.insert(flags.end(), {"--no-lookup", "--policy", "dynamic-tree"});
    flags.insert(flags.end(), sampling.begin(), sampling.end());
    return result_of(0, flags);
  };
  const Arguments drawn{"--temp", "0.8", "-s", "7"};
  const struct {
    std::string draft_heads;
    int greedy, drawn;  // accepted, of 63 tokens after the first
  } cases[] = {{kMedusa, 36, 22}, {kDgf, 42, 32}};
  for (const auto& c : cases) {
    const auto greedy = played({"--heads", c.draft_heads}, {});
    EXPECT_EQ(greedy["accepted"], c.greedy) << c.draft_heads;
    EXPECT_EQ(greedy["drafted"], 8 * (64 - c.greedy)) << c.draft_heads;
    EXPECT_EQ(played({"--heads", c.draft_heads}, drawn)["accepted"], c.drawn) << c.draft_heads;
  }
  // If several sources guess the same token, the first one places it, which depends on time.
  const Arguments all{"--heads", kDgf, "--heads", kMedusa, "-md", kDraft};
  EXPECT_GE(played(all, {})["accepted"], 38);
  EXPECT_GE(played(all, drawn)["accepted"], 28);
}

TEST(DraftHeads, NobodyAsks_noFeaturesAreSent) {
  const auto result = result_of(3, {"-md", kDraft});
  for (const auto& rank : result["per_rank"]) EXPECT_EQ(rank["feature_bytes"], 0);
}

/// The path of a file with one NaN.
std::string with_a_nan(ChangedDraftHeads& draft_heads, const std::string& name) {
  std::vector<std::byte> bytes;
  return draft_heads.write([&](safetensors::Entry& entry) {
    if (entry.name != name) return true;
    bytes.assign(entry.bytes.begin(), entry.bytes.end());
    bytes[2] = std::byte{0}, bytes[3] = std::byte{0x7e};  // F16
    entry.bytes = bytes;
    return true;
  });
}

TEST(DraftHeads, FilesThatDoNotFit_areRefusedInOneLine) {
  const TemporaryFolder folder;
  const std::string cut = folder / "cut.safetensors", text = folder / "text.safetensors", damaged = folder / "damaged.safetensors",
                    none = folder / "none.safetensors";
  std::filesystem::copy_file(kDgf, cut);
  std::filesystem::resize_file(cut, 3'000'000);
  std::string bytes = read_file(kDgf);
  bytes.replace(bytes.find("\"shape\""), 7, "\"shale\"");
  write_file(damaged, bytes);
  write_file(text, "Once upon a time there was a king who had three sons.");
  ChangedDraftHeads dgf(kDgf), medusa(kMedusa), dgf_of_numbers(kDgf);
  const std::string other_width = dgf.halve("W_1"), other_vocabulary = medusa.halve("0.1.weight"), nan = with_a_nan(dgf_of_numbers, "W_2");
  const Arguments own_rank{"--layer-split", "0.5,0.5/1"};
  const struct {
    std::string draft_heads;
    std::string word;
    Arguments more{};
    int code = 2;
  } cases[] = {
      {none, "none.safetensors"},
      {cut, "damaged"},
      {damaged, "damaged"},
      {text, "no safetensors file"},
      {folder.path().string(), "cut.safetensors"},
      {kDraft, "is a model, not draft heads; give it with -md"},
      {other_width, "tensor W_1"},
      {other_vocabulary, "tensor 0.1.weight"},
      {nan, nan + ": tensor W_2 has a value that is no number; copy or download it again"},
      {kDgf, "0.0.linear.weight is missing; its tensors are those of dgf heads: leave --heads-kind out", {"--heads-kind", "medusa"}},
      {kDgf, "only from GGUF files; its tensors are those of dgf heads", {"--heads-kind", "nextn"}},
      {kDraft, "no multi-token prediction layer (tensors nextn.*); give a file that has one", {"--heads-kind", "nextn"}},
      {kDgf, "", {"-m", kDraft}, 0},
      {kDgf, "--heads-kind", {"--heads-kind", "hydra"}, 1},
      {kDgf, "--heads-quant", {"--heads-quant", "q5_0"}, 1}};
  std::size_t job = 0;  // every day, every fourth case on ranks
  for (const int ranks : {0, 3}) {
    for (const auto& c : cases) {
      if (ranks > 0 && !thorough() && job++ % 4 > 0) continue;
      Arguments arguments{"run", "-m", kModel, "-p", "x", "-n", "4", "-t", "1", "--heads", c.draft_heads};
      arguments.insert(arguments.end(), c.more.begin(), c.more.end());
      if (ranks > 0) arguments.insert(arguments.end(), own_rank.begin(), own_rank.end());
      const Outcome outcome = run(yamata(arguments, ranks));
      EXPECT_EQ(outcome.code, c.code) << c.word << outcome.err;
      EXPECT_EQ(outcome.complaints().size(), c.code == 0 ? 0u : 1u) << outcome.err;
      EXPECT_NE(outcome.err.find(c.word), std::string::npos) << c.word << ": " << outcome.err;
    }
  }
}

TEST(DraftHeads, ModelWithoutALayerForMtp_isRefusedInOneLine) {
  for (const int ranks : {0, 3}) {
    Arguments arguments{"run", "-m", kModel, "-p", "x", "-n", "4", "-t", "1", "--mtp"};
    if (ranks > 0) arguments.insert(arguments.end(), {"--layer-split", "0.5,0.5/1"});
    const Outcome outcome = run(yamata(arguments, ranks));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_TRUE(outcome.complaints()[0].ends_with("; leave --mtp out")) << outcome.err;
  }
}

TEST(DraftHeads, FileMissingOnItsRank_isNamedWithTheRank) {
  const TemporaryFolder folder;
  const std::string here = folder / "here.safetensors";
  std::filesystem::copy_file(kDgf, here);
  Arguments command = yamata({"run", "-m", kModel, "-p", "x", "-n", "4", "--heads", here, "--layer-split", "1/1", "--fetch", "never"}, 1);
  const Arguments other = yamata(
      {"run", "-m", kModel, "-p", "x", "-n", "4", "--heads", folder / "elsewhere.safetensors", "--layer-split", "1/1", "--fetch", "never"});
  command.insert(command.end(), {":", "-np", "1"});
  command.insert(command.end(), other.begin(), other.end());
  const Outcome outcome = run(command);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 1"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("elsewhere.safetensors"), std::string::npos) << outcome.err;
}

TEST(DraftHeads, AnotherFileOnARank_isNamedWithTheRank) {
  ChangedDraftHeads changed(kDgf);
  const std::string other = changed.write([](auto& entry) { return entry.name != "layers.1.input_layernorm.weight"; });
  const auto with = [](const std::string& draft_heads) {
    return Arguments{"run", "-m", kModel, "-p", "x", "-n", "4", "--heads", draft_heads, "--layer-split", "1/1"};
  };
  Arguments command = yamata(with(kDgf), 1);
  const Arguments second = yamata(with(other));
  command.insert(command.end(), {":", "-np", "1"});
  command.insert(command.end(), second.begin(), second.end());
  const Outcome outcome = run(command);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 1"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace yamata::test
