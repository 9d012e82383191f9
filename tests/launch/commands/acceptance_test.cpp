// yamata acceptance as users call it, and readers of its file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

const std::string kPrompts = test::source_path("/launch/experiments/tales.jsonl");

nlohmann::json source(const nlohmann::json& json, const std::string& name) {
  for (const auto& source : json["sources"]) {
    if (source["name"] == name) return source;
  }
  ADD_FAILURE() << "no source " << name;
  return {};
}

TEST(Acceptance, DraftAndSuffixes_areRatedOneByOneAndTogether) {
  const TemporaryFolder folder;
  const std::string rates = folder / "rates.json", model = kModel;
  const Outcome outcome = run(yamata({"acceptance", "-m", model, "-md", kDraft, "-f", kPrompts, "--prompts", "3", "-n", "40", "--draft",
                                      "12", "--levels", "4", "--ignore-eos", "--json", rates}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* word : {"3 prompts, 120 tokens", "draft model", "suffixes", "calibrated", "rows of a run", "1 ahead"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << "\n" << outcome.out;
  const auto json = nlohmann::json::parse(read_file(rates));
  const auto draft = source(json, "draft model"), all = source(json, "all");
  EXPECT_EQ(draft["levels"][0]["reached"], 120);
  EXPECT_EQ(draft["levels"][0]["guessed"], 120) << "it is waited for";
  EXPECT_NEAR(draft["levels"][0]["true_rate"].get<double>(), 0.67, 0.15);  // models/README.md
  EXPECT_NEAR(draft["levels"][0]["calibrated_rate"].get<double>(), draft["levels"][0]["true_rate"].get<double>(), 0.12);
  EXPECT_LT(source(json, "suffixes")["levels"][0]["guessed"].get<int>(), 121);
  EXPECT_EQ(json["draft"], 48);
  EXPECT_EQ(json["children"], 4) << "of a best-first search";
  EXPECT_EQ(draft["ranks"].size(), 3u);
  EXPECT_EQ(draft["ranks"][0].size(), 40u);
  EXPECT_GT(all["tokens_per_run"]["8"].get<double>(), 1.5);
  EXPECT_GE(all["tokens_per_run"]["16"].get<double>(), all["tokens_per_run"]["2"].get<double>());

  const Arguments job{"run", "-m", model, "-p", "A fox met a crow", "-n", "40", "--ignore-eos", "-md", kDraft};
  Arguments tree = job, plain = job;
  for (const std::string& word : {std::string("--policy"), std::string("static-tree"), std::string("--tree"), rates}) tree.push_back(word);
  for (const char* word : {"--strategy", "iterative"}) plain.push_back(word);
  const Outcome with_tree = run(yamata(tree));
  EXPECT_EQ(with_tree.code, 0) << with_tree.err;
  EXPECT_EQ(with_tree.out, run(yamata(plain)).out);
}

TEST(Acceptance, DraftOnARankOfItsOwn_hasTheSameRates) {
  const TemporaryFolder folder;
  const auto rates = [&](int ranks) {
    const Outcome outcome = run(yamata({"acceptance", "-m", kModel, "-md", kDraft, "-f", kPrompts, "--prompts", "3", "-n", "8", "--draft",
                                        "12", "--no-lookup", "--ignore-eos", "-t", "1", "--json", folder / "rates.json"},
                                       ranks));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_file(folder / "rates.json");
  };
  const std::string alone = rates(0);
  EXPECT_EQ(rates(2), alone);
  EXPECT_EQ(rates(3), alone);
}

TEST(Acceptance, PromptThatDoesNotFit_losesItsBeginningWithAWarning) {
  const TemporaryFolder folder;
  write_file(folder / "prompts.jsonl", "{\"text\": \"A fox met a crow, who had a piece of cheese\"}\n{\"text\": \"A\"}\n");
  const Outcome outcome =
      run(yamata({"acceptance", "-m", kModel, "-md", kDraft, "-f", folder / "prompts.jsonl", "-n", "4", "-c", "8", "--ignore-eos"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("yamata: warning: 1 of 2 prompts lost the beginning, because the context of 8 tokens has room for 4 besides "
                             "the 4 of -n; give a larger -c or a smaller -n\n"),
            std::string::npos)
      << outcome.err;
}

TEST(Acceptance, GivenTrees_areReplayedWithTheTextsOfOtherPrompts) {
  const TemporaryFolder folder;
  write_file(folder / "one.jsonl", "{\"text\": \"A fox met a crow\"}\n");
  const std::string rates = folder / "rates.json", other = folder / "other.json", own = folder / "own.json";
  const auto record = [&](const std::string& prompts, const std::string& out, const Arguments& more) {
    Arguments words{"acceptance", "-m",          kModel,         "--heads", test::source_path("/models/tales-medusa.safetensors"),
                    "-f",         prompts,       "--prompts",    "2",       "-n",
                    "20",         "--no-lookup", "--ignore-eos", "--json",  out};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(yamata(words));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  };
  record(kPrompts, rates, {"--policy", "dynamic-tree", "--draft", "63"});
  const Outcome replayed = record(folder / "one.jsonl", other, {"--tree", rates});
  EXPECT_NE(replayed.out.find("with the trees of " + rates + "\n"), std::string::npos) << replayed.out;
  const auto json = nlohmann::json::parse(read_file(other));
  EXPECT_EQ(json["trees_of"], rates);
  EXPECT_EQ(json["draft"], 63) << "as many as the largest tree has";
  const auto given = source(json, "all")["tokens_per_run_of_trees"];
  EXPECT_EQ(given.size(), 6u);
  record(kPrompts, own, {"--tree", rates});
  EXPECT_EQ(source(nlohmann::json::parse(read_file(own)), "all")["tokens_per_run_of_trees"],
            source(nlohmann::json::parse(read_file(rates)), "all")["tokens_per_run"])
      << "of the same texts, their own trees";
  EXPECT_NE(given, source(nlohmann::json::parse(read_file(rates)), "all")["tokens_per_run"]);
}

/// A terminal; what is written to it can be read here.
class Terminal {
 public:
  Terminal() : fd_(posix_openpt(O_RDWR | O_NOCTTY)) {
    grantpt(fd_);
    unlockpt(fd_);
  }
  ~Terminal() { close(fd_); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  std::string path() const { return ptsname(fd_); }
  /// Reads until `text` has come. False if there is nothing more to read.
  bool wait_for(const std::string& text) {
    char some[256];
    while (text_.find(text) == std::string::npos) {
      const ssize_t count = read(fd_, some, sizeof(some));
      if (count <= 0) return false;
      text_.append(some, static_cast<std::size_t>(count));
    }
    return true;
  }

 private:
  int fd_;
  std::string text_;
};

TEST(Acceptance, Interrupted_givesTheRatesSoFar) {
  const TemporaryFolder folder;
  std::string prompts;
  for (int i = 0; i < 20000; ++i) prompts += "{\"text\": \"Once\"}\n";
  write_file(folder / "prompts.jsonl", prompts);
  const std::string rates = folder / "rates.json";
  Terminal terminal;
  Arguments command{"sh", "-c", "exec \"$@\" 2> " + terminal.path(), "sh"};
  for (const std::string& word : yamata({"acceptance", "-m", kModel, "-md", kDraft, "-f", folder / "prompts.jsonl", "-n", "4", "--draft",
                                         "4", "--ignore-eos", "--json", rates}))
    command.push_back(word);
  Process process(command);
  ASSERT_TRUE(terminal.wait_for("2/20000 prompts"));
  kill(process.pid(), SIGINT);
  EXPECT_TRUE(terminal.wait_for("of 20000 prompts; the rates are those of the text so far"));
  EXPECT_EQ(process.wait(), 130);
  const auto json = nlohmann::json::parse(read_file(rates));
  EXPECT_GE(json["prompts"].get<int>(), 2);
  EXPECT_LT(json["prompts"].get<int>(), 20000);
  EXPECT_GE(source(json, "draft model")["levels"][0]["guessed"].get<int>(), 8);
  EXPECT_NE(process.out().find("rows of a run"), std::string::npos);
}

TEST(Acceptance, Nonsense_isNamedWithItsRemedy) {
  const TemporaryFolder folder;
  write_file(folder / "none.jsonl", "\n");
  write_file(folder / "tree.json", R"({"tree": [[0], [0, 0], [0, 0, 0]]})");
  write_file(folder / "bad.jsonl", "{\"turns\": [\"a\"]}\n{\"turn\": 1}\n");
  const std::vector<std::pair<Arguments, std::string>> cases{
      {{}, "-f FILE.jsonl"},
      {{"-f", folder / "missing.jsonl"}, "missing.jsonl"},
      {{"-f", folder / "none.jsonl"}, "no prompts"},
      {{"-f", folder / "bad.jsonl"}, "line 2"},
      {{"-f", test::source_path("/README.md")}, "README.md"},
      {{"-f", kPrompts, "--policy", "static-tree", "--tree", test::source_path("/README.md")}, "README.md"},
      {{"-f", kPrompts, "--draft", "2", "--tree", folder / "tree.json"}, "--draft must be at least 3, for the largest tree of --tree"},
      {{"-f", kPrompts, "--no-lookup"}, "-md"},
      {{"-f", kPrompts, "--strategy", "pipeinfer"}, "--strategy"},
      {{"-f", kPrompts, "--categories", "math"}, "there are tale"},
      {{"-f", kPrompts, "--categories", ""}, "--categories"},
      {{"-f", kPrompts, "--prompt-format", "x"}, "--prompt-format"},
      {{"-f", kPrompts, "--policy", "best-first", "--tree", folder / "bad.jsonl"}, "--policy"}};
  for (const auto& [more, word] : cases) {
    Arguments all{"acceptance", "-m", kModel};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(yamata(all));
    const bool bad_file = word == "missing.jsonl" || word == "no prompts" || word == "line 2" || word == "README.md";
    EXPECT_EQ(outcome.code, bad_file ? 2 : 1) << word << outcome.err;
    EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  }
}

}  // namespace
}  // namespace yamata::test
