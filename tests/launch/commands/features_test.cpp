// yamata features as users call it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "src/safetensors/safetensors.hpp"
#include "tests/launch/process.hpp"

namespace yamata::test {
namespace {

const std::string kLines = "Once upon a time there was a king\n\nThe old woman said to her son\nThere was once a poor miller\n";

Outcome features(Arguments arguments, int ranks = 0) {
  arguments.insert(arguments.begin(), {"features", "-m", kModel, "-t", "1"});
  return run(yamata(arguments, ranks));
}

TEST(Features, TextInPieces_hasARowPerTokenAndTheSameBitsOnAnyNumberOfRanks) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt", alone = folder / "alone.safetensors", together = folder / "together.safetensors";
  write_file(text, kLines);
  const Outcome outcome = features({"-f", text, "-o", alone, "--layers", "2,eagle3,last", "-c", "16", "--type", "f32"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto file = safetensors::File::open(alone);
  const auto ids = file.find("ids")->integers(), texts = file.find("texts")->integers();
  const auto rows = static_cast<std::int64_t>(ids.size());
  EXPECT_EQ(file.tensors().size(), 7u);
  for (const char* layer : {"hidden.2", "hidden.4", "hidden.5", "hidden.last"}) {
    ASSERT_TRUE(file.find(layer)) << layer;
    EXPECT_EQ(file.find(layer)->shape, (std::vector<std::int64_t>{rows, 256}));
  }
  EXPECT_EQ(texts.front(), 0);
  EXPECT_EQ(texts.back(), rows);
  for (std::size_t i = 0; i + 1 < texts.size(); ++i) {
    EXPECT_EQ(ids[static_cast<std::size_t>(texts[i])], 1) << "each piece begins as a text does";
    EXPECT_LE(texts[i + 1] - texts[i], 16);
  }
  ASSERT_EQ(features({"-f", text, "-o", together, "--layers", "2,eagle3,last", "-c", "16", "--type", "f32"}, 3).code, 0);
  EXPECT_EQ(read_file(together), read_file(alone));
}

TEST(Features, Generate_goesOnAfterEachPrompt_asRunDoes_inSeveralFiles) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt", list = folder / "list.jsonl", out = folder / "out.safetensors";
  write_file(text, kLines);
  write_file(list, "{\"prompt\": \"Once upon a time there was a king\"}\n{\"turns\": [\"There was once a poor miller\", \"x\"]}\n");
  ASSERT_EQ(features({"-f", text, "-o", out, "--generate", "10", "--prompt-tokens", "4", "--texts", "2"}).code, 0);
  const auto file = safetensors::File::open(out);
  EXPECT_EQ(file.find("texts")->integers(), (std::vector<std::int64_t>{0, 13, 26})) << "the last token of each was never computed";
  EXPECT_EQ(file.find("prompts")->integers(), (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(file.find("hidden.last")->type, safetensors::Type::kF16);
  ASSERT_EQ(
      features({"-f", list, "-o", out, "--generate", "700", "-c", "1000", "--shard", "1", "--type", "f32", "--layers", "0,1,2,last"}).code,
      0);
  const auto first = safetensors::File::open(out), second = safetensors::File::open(folder / "out-00002.safetensors");
  EXPECT_EQ(first.find("texts")->integers().size(), 2u);
  EXPECT_EQ(second.find("texts")->integers().size(), 2u);
  const auto run_ids =
      run(yamata({"run", "-m", kModel, "-p", "There was once a poor miller", "-n", "700", "-c", "1000", "--json", folder / "r.json"}));
  ASSERT_EQ(run_ids.code, 0);
  std::string ids;
  for (const std::int64_t id : second.find("ids")->integers()) ids += std::to_string(id) + ",";
  std::string written = read_file(folder / "r.json");
  written.erase(std::remove_if(written.begin(), written.end(), [](char c) { return c == ' ' || c == '\n'; }), written.end());
  const std::size_t tail = ids.find(',', ids.size() / 2) + 1;
  EXPECT_NE(written.find(ids.substr(tail, ids.size() - tail - 1)), std::string::npos);
}

TEST(Features, FlagsOfGenerating_haveAnEffectOrAWarning) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt", out = folder / "out.safetensors";
  write_file(text, kLines);
  const Outcome idle = features({"-f", text, "-o", out, "--ignore-eos"});
  EXPECT_EQ(idle.code, 0) << idle.err;
  ASSERT_EQ(idle.warnings().size(), 1u) << idle.err;
  EXPECT_NE(idle.warnings()[0].find("--ignore-eos does nothing without --generate"), std::string::npos) << idle.err;
  const auto texts_of = [&](const std::string& model, const Arguments& more) {
    Arguments arguments{"features", "-m", model, "-t", "1", "-f", text, "-o", out, "--generate", "20", "--prompt-tokens", "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(yamata(arguments));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.warnings().size(), 0u) << outcome.err;
    return safetensors::File::open(out).find("texts")->integers();
  };
  const std::vector<std::int64_t> whole{0, 23, 46, 69};
  EXPECT_EQ(texts_of(kModel, {}), whole);
  const std::int64_t generated = safetensors::File::open(out).find("ids")->integers().at(8);
  std::string model = read_file(kModel);
  const std::string key = "tokenizer.ggml.eos_token_id";
  const std::size_t value = model.find(key) + key.size() + sizeof(std::uint32_t);  // after its type
  const auto token = static_cast<std::uint32_t>(generated);
  std::memcpy(model.data() + value, &token, sizeof(token));
  write_file(folder / "ends.gguf", model);
  EXPECT_LT(texts_of(folder / "ends.gguf", {})[1], whole[1]) << "the first text ends";
  EXPECT_EQ(texts_of(folder / "ends.gguf", {"--ignore-eos"}), whole);
}

TEST(Features, FewerFilesThanBefore_leaveNoneOfBefore) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt", out = folder / "out.safetensors";
  const std::vector<std::string> kept{folder / "out-2.safetensors", folder / "other-00002.safetensors"};
  write_file(text, kLines);
  const std::vector<std::string> older{folder / "out-00002.safetensors", folder / "out-00003.safetensors"};
  ASSERT_EQ(features({"-f", text, "-o", out}).code, 0);
  for (const std::string& name : kept) write_file(name, "x");
  for (const std::string& name : older) write_file(name, read_file(out));
  ASSERT_EQ(features({"-f", text, "-o", out}).code, 0);
  for (const std::string& name : kept) EXPECT_EQ(read_file(name), "x") << name;
  for (const std::string& name : older) EXPECT_FALSE(std::filesystem::exists(name)) << name;
}

/// launch/write-texts writes such files, over hours.
TEST(Features, FileOfTextsWithoutHiddenStates_isNotReplaced) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt", out = folder / "out.safetensors";
  write_file(text, kLines);
  ASSERT_EQ(features({"-f", text, "-o", out}).code, 0);
  std::string file = read_file(out);
  file.replace(file.find("hidden."), 7, "former.");
  write_file(out, file);
  const Outcome refused = features({"-f", text, "-o", out});
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_NE(refused.err.find("exists and is not a file of yamata features"), std::string::npos) << refused.err;
  EXPECT_EQ(read_file(out), file);
}

TEST(Features, ListOfPromptsWithAnotherName_isTakenAsItIs_withAWarning) {
  const TemporaryFolder folder;
  const std::string list = folder / "list.json", out = folder / "out.safetensors";
  write_file(list, "\n{\"prompt\": \"a king\"}\n");
  const Outcome taken = features({"-f", list, "-o", out});
  EXPECT_EQ(taken.code, 0) << taken.err;
  EXPECT_NE(taken.err.find("list.json has prompts in JSON, which are taken as they are; rename it to .jsonl"), std::string::npos)
      << taken.err;
  write_file(list, "{\"a\": 1}\n");
  EXPECT_EQ(features({"-f", list, "-o", out}).err.find("has prompts"), std::string::npos);
}

TEST(Features, FileOfOthersWithANumberedName_isNotTouched) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt", out = folder / "out.safetensors";
  write_file(text, kLines);
  for (const std::string& name : {folder / "out-00002.safetensors", folder / "out-00005.safetensors"}) {
    write_file(name, "x");
    const Outcome refused = features({"-f", text, "-o", out});
    EXPECT_EQ(refused.code, 1) << refused.err;
    EXPECT_NE(refused.err.find(name + " would be overwritten"), std::string::npos) << refused.err;
    EXPECT_EQ(read_file(name), "x");
    EXPECT_FALSE(std::filesystem::exists(out));
    std::filesystem::remove(name);
  }
}

TEST(Features, PromptFormat_putsEachPromptIntoATemplate) {
  const TemporaryFolder folder;
  const std::string list = folder / "list.jsonl", lines = folder / "lines.txt", ready = folder / "ready.jsonl";
  const std::string out = folder / "out.safetensors", wanted = folder / "wanted.safetensors";
  write_file(list, "{\"prompt\": \"a king\"}\n{\"turns\": [\"a poor miller and his three sons\"]}\n");
  write_file(lines, "a king\n\na poor miller and his three sons\n");
  write_file(ready,
             "{\"prompt\": \"Once there was\\na king, who\"}\n{\"prompt\": \"Once there was\\na poor miller and his three sons, who\"}\n");
  ASSERT_EQ(features({"-f", ready, "-o", wanted, "--generate", "6"}).code, 0);
  for (const std::string& file : {list, lines}) {
    const Outcome outcome =
        features({"-f", file, "-o", out, "--generate", "6", "--prompt-tokens", "2", "--prompt-format", "Once there was\\n{}, who"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(read_file(out), read_file(wanted)) << file;
  }
  ASSERT_EQ(features({"-f", list, "-o", out, "--prompt-format", "Once there was\\n{}, who"}).code, 0);
  ASSERT_EQ(features({"-f", ready, "-o", wanted}).code, 0);
  EXPECT_EQ(read_file(out), read_file(wanted)) << "prompts that are not continued";
}

TEST(Features, APromptThatIsTooLong_keepsItsEnd) {
  const TemporaryFolder folder;
  const std::string list = folder / "list.jsonl", out = folder / "out.safetensors", whole = folder / "whole.safetensors";
  write_file(list, "{\"prompt\": \"Once upon a time there was a king who had three sons\"}\n");
  ASSERT_EQ(features({"-f", list, "-o", out, "--generate", "4", "-c", "9"}).code, 0);
  ASSERT_EQ(features({"-f", list, "-o", whole}).code, 0);
  const auto ids = safetensors::File::open(out).find("ids")->integers(), all = safetensors::File::open(whole).find("ids")->integers();
  ASSERT_GE(ids.size(), 5u);
  EXPECT_EQ(ids.front(), all.front()) << "the beginning-of-text token";
  EXPECT_TRUE(std::equal(ids.begin() + 1, ids.begin() + 5, all.end() - 4));
}

TEST(Features, InterruptedBeforeTheFirstText_saysSoAndWritesNothing) {
  const TemporaryFolder folder;
  const std::string out = folder / "out.safetensors", pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  Process process(yamata({"features", "-m", kModel, "-t", "1", "-f", pipe, "-o", out, "--generate", "60000", "-c", "65536"}));
  write_file(pipe, kLines);  // waits for the reader
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(), 130);
  const Outcome outcome{130, process.out(), process.err()};
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.complaints(),
            std::vector<std::string>{"yamata: interrupted before the first text was done, so " + out + " is not written"});
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) EXPECT_EQ(entry.path(), pipe);
}

TEST(Features, Nonsense_isNamed) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt", out = folder / "out.safetensors", bad = folder / "bad.jsonl";
  write_file(text, kLines);
  write_file(bad, "{\"prompt\": 5}\n");
  const struct {
    Arguments arguments;
    int code;
    std::string word;
  } cases[] = {{{"-f", text}, 1, "-o FILE"},
               {{"-o", out}, 1, "-f FILE"},
               {{"-f", text, "-o", out, "--layers", "8"}, 1, "'8'"},
               {{"-f", text, "-o", out, "--layers", "first"}, 1, "'first'"},
               {{"-f", text, "-o", out, "--type", "q8_0"}, 1, "--type"},
               {{"-f", text, "-o", text}, 1, "overwritten"},
               {{"-f", bad, "-o", out}, 2, "line 1"},
               {{"-f", text, "-o", out, "--generate", "6", "--prompt-format", "x"}, 1, "--prompt-format"},
               {{"-f", text, "-o", out, "--prompt-format", "x {}"}, 1, "add --generate"},
               {{"-f", text, "-o", out, "--generate", "600"}, 1, "--generate"},
               {{"-f", text, "-o", folder / "none/out.safetensors"}, 2, "check the folder"}};
  for (const auto& c : cases) {
    const Outcome outcome = features(c.arguments);
    EXPECT_EQ(outcome.code, c.code) << outcome.err;
    ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_NE(outcome.complaints()[0].find(c.word), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace yamata::test
