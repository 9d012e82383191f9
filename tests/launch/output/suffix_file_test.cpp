// --suffix-store: texts that are kept between runs, also if the file is damaged.
#include "launch/program/output/suffix_file.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/program/input/input_text.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/warnings.hpp"
#include "node/error.hpp"
#include "tests/launch/process.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::test {
namespace {

using Text = std::vector<std::int32_t>;

const std::vector<std::string> kVocabulary{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};

/// A job that reads the file and writes a text.
void play(const std::string& path, const Text& text) {
  const SuffixFile file(path, kVocabulary);
  SuffixMemory memory;
  file.read(memory);
  memory.add_own(text);
  file.add(memory);
}

std::vector<Text> texts(const std::string& path) {
  SuffixMemory memory;
  SuffixFile(path, kVocabulary).read(memory);
  std::vector<Text> all;
  for (std::size_t n = 0; n < memory.trie().texts(); ++n) all.push_back(memory.trie().text(n));
  return all;
}

TEST(SuffixFile, TextsOfEarlierJobs_areThereInTheLater) {
  const TemporaryFolder folder;
  play(folder / "s", {1, 2, 3});
  play(folder / "s", {4, 5});
  play(folder / "s", {});
  EXPECT_EQ(texts(folder / "s"), (std::vector<Text>{{1, 2, 3}, {4, 5}}));
}

TEST(SuffixFile, Corpus_mayBeLargerThanTextsOfJobs_andIsKeptWhole) {
  const TemporaryFolder folder;
  const Text large(SuffixMemory::kTokens + 100, 1);
  const SuffixFile file(folder / "s", kVocabulary, "--datastore");
  file.add(std::vector<Text>{large});
  file.add(std::vector<Text>{Text{2, 3}});
  EXPECT_EQ(texts(folder / "s"), (std::vector<Text>{large, {2, 3}}));
  play(folder / "s", {4, 5});
  EXPECT_EQ(texts(folder / "s"), (std::vector<Text>{{2, 3}, {4, 5}})) << "a job's text takes the place of the oldest, and no more is kept";
  EXPECT_THROW(file.add(std::vector<Text>{Text(1 << 20, 1)}), UsageError);
}

TEST(SuffixFile, Datastore_mustBeThereAndWhole) {
  const TemporaryFolder folder;
  const std::string path = folder / "s";
  const SuffixFile file(path, kVocabulary, "--datastore");
  SuffixMemory memory;
  EXPECT_THROW(file.read_datastore(memory), ModelError);
  const SuffixFile::Size size = file.add(std::vector<Text>{Text{1, 2}, Text{3}});
  EXPECT_EQ(size.texts, 2u);
  EXPECT_EQ(size.tokens, 3u);
  file.read_datastore(memory);
  EXPECT_EQ(memory.trie().tokens(), 3u);
  std::string damaged = read_text(path);
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  write_file(path, damaged);
  EXPECT_THROW(file.read_datastore(memory), ModelError);
  EXPECT_THROW(file.add(std::vector<Text>{Text{4}}), ModelError);
  EXPECT_EQ(read_text(path), damaged);
  write_file(path, "notes");
  try {
    file.read_datastore(memory);
    ADD_FAILURE() << "a file of somebody else";
  } catch (const ModelError& error) {
    EXPECT_EQ(std::string(error.what()), path + " is a file of another kind, not one that yamata wrote for --datastore; name another file");
  }
}

/// The text of a plain run is the corpus, so almost every guess is accepted.
TEST(SuffixFile, DatastoreOfACorpus_isGuessedFromAlone_andStaysAsItIs) {
  const TemporaryFolder folder;
  const std::string store = folder / "s", corpus = folder / "corpus.txt", json = folder / "r.json";
  const Arguments request{"-m", kModel, "-p", "Once upon a time", "-n", "48", "--ignore-eos"};
  const auto run_with = [&](Arguments more) {
    more.insert(more.begin(), "run");
    more.insert(more.end(), request.begin(), request.end());
    return run(yamata(more));
  };
  const Outcome plain = run_with({"--strategy", "iterative"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  write_file(corpus, "Once upon a time" + plain.out);
  const Outcome missing = run_with({"--preset", "rest", "--datastore", store});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("yamata tokenize"), std::string::npos) << missing.err;
  const Outcome made = run(yamata({"tokenize", "-m", kModel, "-f", corpus, "--datastore", store}));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, "");
  EXPECT_NE(made.err.find(store + ": 1 text of "), std::string::npos) << made.err;
  const std::string before = read_text(store);
  const Outcome guessed = run_with({"--preset", "rest", "--datastore", store, "--json", json});
  ASSERT_EQ(guessed.code, 0) << guessed.err;
  EXPECT_EQ(guessed.out, plain.out);
  const auto result = nlohmann::json::parse(read_text(json));
  EXPECT_GT(result["tokens_per_target_run"].get<double>(), 3);
  EXPECT_EQ(read_text(store), before);
}

TEST(SuffixFile, DatastoreOfAListOfPrompts_hasATextOfEach) {
  const TemporaryFolder folder;
  const std::string list = folder / "list.jsonl", store = folder / "s";
  write_file(list, "{\"prompt\": \"Once upon\"}\n\n{\"question\": \"The King\"}\n");
  const auto kept = [&](const Arguments& source) {
    Arguments words{"tokenize", "-m", kModel, "--datastore", store};
    words.insert(words.end(), source.begin(), source.end());
    return run(yamata(words));
  };
  ASSERT_EQ(kept({"-p", "Once upon"}).code, 0);
  ASSERT_EQ(kept({"-p", "The King"}).code, 0);
  const std::string singly = read_text(store);
  std::filesystem::remove(store);
  const Outcome both = kept({"-f", list});
  ASSERT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(read_text(store), singly);
  EXPECT_NE(both.err.find(store + ": 2 texts of "), std::string::npos) << both.err;
}

TEST(SuffixFile, DeviceOrFolder_isRefused) {
  const TemporaryFolder folder;
  for (const std::string& path : {std::string("/dev/null"), folder.path().string()}) {
    SuffixMemory memory;
    EXPECT_THROW(SuffixFile(path, kVocabulary).read(memory), ModelError);
    const Outcome outcome = run(yamata({"run", "-m", kModel, "-p", "Once", "-n", "1", "--suffix-store", path}));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.complaints(), std::vector{"yamata: " + path + " is no regular file; name another file with --suffix-store"});
  }
}

TEST(SuffixFile, TooManyTokens_pushTheOldestTextsOut) {
  const TemporaryFolder folder;
  play(folder / "s", Text(10, 1));
  play(folder / "s", Text(SuffixMemory::kTokens - 20, 2));
  EXPECT_EQ(texts(folder / "s").size(), 2u);
  play(folder / "s", Text(11, 3));
  const auto left = texts(folder / "s");
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0][0], 2);
}

TEST(SuffixFile, DamageAnywhere_isToldOfByName_andTheFileBegunAnew_orRefusedWhereItIsAnother) {
  const TemporaryFolder folder;
  const std::string path = folder / "s";
  play(path, {1, 2, 3});
  show_warnings();
  const std::string whole = read_text(path);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    write_file(path, damaged);
    if (at < kSuffixStoreBegins.size()) {
      EXPECT_THROW(play(path, {4}), ModelError) << at;
      EXPECT_EQ(read_text(path), damaged) << "a file of somebody else is left alone";
      continue;
    }
    testing::internal::CaptureStderr();
    play(path, {4, 5});
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find(path), std::string::npos) << at;
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
    EXPECT_EQ(texts(path), (std::vector<Text>{{4, 5}})) << at;
  }
}

TEST(SuffixFile, AnotherVocabulary_isRefused_andTheFileStays) {
  const TemporaryFolder folder;
  const std::string path = folder / "s";
  play(path, {1, 2, 3});
  const std::vector<std::string> other{"b", "a"};
  SuffixMemory memory;
  EXPECT_THROW(SuffixFile(path, other).read(memory), ModelError);
  EXPECT_EQ(texts(path), (std::vector<Text>{{1, 2, 3}}));
}

TEST(SuffixFile, JobsThatEndAtOnce_loseNoText) {
  const TemporaryFolder folder;
  constexpr std::int32_t kJobs = 4, kTexts = 10;
  std::vector<pid_t> jobs;
  for (std::int32_t job = 0; job < kJobs; ++job) {
    const pid_t pid = fork();
    if (pid == 0) {
      for (std::int32_t n = 0; n < kTexts; ++n) play(folder / "s", {job, n % 10});
      _exit(0);
    }
    jobs.push_back(pid);
  }
  for (const pid_t pid : jobs) {
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(texts(folder / "s").size(), static_cast<std::size_t>(kJobs * kTexts));
}

TEST(SuffixFile, NoFile_keepsNothing) {
  const SuffixFile none("", kVocabulary);
  SuffixMemory memory;
  memory.add_own(Text{1});
  none.read(memory);
  none.add(memory);
  EXPECT_EQ(memory.trie().texts(), 1u);
}

}  // namespace
}  // namespace yamata::test
