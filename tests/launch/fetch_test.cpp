// Jobs under mpirun whose ranks lack the models' files: they fetch what they need from rank 0, and the text has the same bits.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "src/gguf/writer.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

namespace fs = std::filesystem;

const std::string kMedusa = test::source_path("/models/tales-medusa.safetensors");

/// A job whose rank 0 alone has the files. Files of the others are in the same places of `nowhere`, a folder that does not exist, and each
/// has a cache of its own.
class FetchTest : public testing::Test {
 protected:
  /// The command line of rank `rank`: {FILE} in `flags` stands before the names of files that rank 0 has.
  Arguments of_rank(int rank, const Arguments& flags) const {
    Arguments arguments{"run", "-p", kPrompt, "-n", "24", "--ignore-eos", "--logits-checksum", "-t", "1", "--json", folder_ / "r.json"};
    for (const std::string& flag : flags) {
      const bool file = flag.starts_with("{FILE}");
      const std::string path = file ? flag.substr(6) : flag;
      arguments.push_back(file && rank > 0 ? folder_ / "nowhere" + path : path);
    }
    if (rank > 0) arguments.insert(arguments.end(), {"--weights-cache", cache(rank)});
    return arguments;
  }
  std::string cache(int rank) const { return folder_ / "cache" + std::to_string(rank); }
  Outcome outcome_of(int ranks, const Arguments& flags) const {
    Arguments command = yamata(of_rank(0, flags), 1);
    for (int rank = 1; rank < ranks; ++rank) {
      const Arguments other = yamata(of_rank(rank, flags));
      command.insert(command.end(), {":", "-np", "1"});
      command.insert(command.end(), other.begin(), other.end());
    }
    return run(command);
  }
  nlohmann::json result_of(int ranks, const Arguments& flags) const {
    const Outcome outcome = outcome_of(ranks, flags);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? nlohmann::json::parse(read_file(folder_ / "r.json")) : nlohmann::json{};
  }
  static std::uint64_t fetched(const nlohmann::json& result) {
    std::uint64_t bytes = 0;
    for (const auto& rank : result["per_rank"]) bytes += rank["fetched_bytes"].get<std::uint64_t>();
    return bytes;
  }
  /// The text of one rank with the file.
  nlohmann::json alone(const std::string& model = kModel) const { return result_of(1, {"-m", model}); }
  void expect_equal(const nlohmann::json& result, const nlohmann::json& expected, const std::string& name) const {
    EXPECT_EQ(result["logits_checksum"], expected["logits_checksum"]) << name;
    EXPECT_EQ(result["token_ids"], expected["token_ids"]) << name;
  }
  /// Flips a byte of every copy of a rank.
  void damage_copies(int rank, const std::string& file, std::uint64_t from_end) const {
    int damaged = 0;
    for (const auto& entry : fs::recursive_directory_iterator(cache(rank))) {
      if (entry.path().filename() != file) continue;
      std::fstream stream(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(fs::file_size(entry.path()) - from_end);
      stream.seekg(at);
      const int byte = stream.get();
      stream.seekp(at);
      stream.put(static_cast<char>(byte ^ 1));
      ++damaged;
    }
    EXPECT_GT(damaged, 0);
  }

  TemporaryFolder folder_;
};

TEST_F(FetchTest, Pipeline_needsNoCopiesAndFetchesOnce) {
  const auto expected = alone();
  const Arguments flags{"-m", "{FILE}" + kModel, "--layer-split", "0.4,0.3,0.3"};
  const auto first = result_of(3, flags);
  expect_equal(first, expected, "first");
  const std::uint64_t bytes = fs::file_size(kModel);
  EXPECT_EQ(first["per_rank"][0]["fetched_bytes"], 0);
  for (const int rank : {1, 2}) {
    EXPECT_GT(first["per_rank"][rank]["fetched_bytes"].get<std::uint64_t>(), 0u) << rank;
    EXPECT_LT(first["per_rank"][rank]["fetched_bytes"].get<std::uint64_t>(), bytes) << "only its layers";
  }
  const auto second = result_of(3, flags);
  expect_equal(second, expected, "second");
  EXPECT_EQ(fetched(second), 0u);
  const auto other = result_of(3, {"-m", "{FILE}" + kModel, "--layer-split", "0.2,0.5,0.3"});
  expect_equal(other, expected, "another layout");
  EXPECT_LT(fetched(other), fetched(first)) << "only what is new";
}

TEST_F(FetchTest, DamagedCopies_areFetchedAgain) {
  const auto expected = alone();
  const Arguments flags{"-m", "{FILE}" + kModel, "--layer-split", "0.5,0.5"};
  result_of(2, flags);
  damage_copies(1, "part-1.gguf", 5000);  // output norm or the last layer
  const auto damaged = result_of(2, flags);
  expect_equal(damaged, expected, "data");
  EXPECT_GT(fetched(damaged), 0u);
  damage_copies(1, "have", 9);
  expect_equal(result_of(2, flags), expected, "have");
  for (const auto& entry : fs::recursive_directory_iterator(cache(1))) {
    if (entry.path().filename() == "part-1.gguf") fs::resize_file(entry.path(), 4'000'000);
  }
  const auto cut = result_of(2, flags);
  expect_equal(cut, expected, "truncated");
  EXPECT_GT(fetched(cut), 0u);
}

TEST_F(FetchTest, EveryLayout_hasTheSameBits) {
  const auto expected = alone();
  const std::vector<std::pair<int, Arguments>> jobs{{3, {"--layer-split", "0.4+0.3+0.3"}},
                                                    {3, {"--layer-split", "0.5,0.25+0.25"}},
                                                    {2, {"--layer-split", "auto"}},
                                                    {2, {"--layer-split", "0.5,0.5", "--no-repack"}},
                                                    {2, {"--layer-split", "0.5,0.5", "--fetch", "memory"}},
                                                    {2, {"--layer-split", "0.5+0.5", "--fetch", "memory"}}};
  for (const auto& [ranks, flags] : jobs) {
    Arguments all{"-m", "{FILE}" + kModel};
    all.insert(all.end(), flags.begin(), flags.end());
    fs::remove_all(cache(1)), fs::remove_all(cache(2));
    const auto result = result_of(ranks, all);
    expect_equal(result, expected, flags.back());
    EXPECT_GT(fetched(result), 0u) << flags.back();
    EXPECT_EQ(fs::exists(cache(1)), flags.back() != "memory");
  }
}

TEST_F(FetchTest, Guesses_comeFromFetchedFiles) {
  const auto expected = alone();
  const std::vector<std::pair<int, Arguments>> jobs{
      {3, {"-md", "{FILE}" + kDraft, "--strategy", "speculative"}},
      {3, {"-md", "{FILE}" + kDraft, "--layer-split", "0.5,0.5/1", "--strategy", "speculative"}},
      {3, {"--heads", "{FILE}" + kMedusa, "--layer-split", "0.5,0.5/1", "--strategy", "speculative"}},
      {3, {"--heads", "{FILE}" + kMedusa, "--layer-split", "0.5,0.5/1", "--strategy", "speculative", "--fetch", "memory"}}};
  for (const auto& [ranks, flags] : jobs) {
    Arguments all{"-m", "{FILE}" + kModel, "--policy", "dynamic-tree"};
    all.insert(all.end(), flags.begin(), flags.end());
    const auto result = result_of(ranks, all);
    expect_equal(result, expected, flags[1] + flags.back());
    EXPECT_GT(result["accepted"].get<int>(), 0) << flags[1] << flags.back();
    EXPECT_GT(fetched(result), 0u);
    if (flags.back() == "memory") continue;
    EXPECT_EQ(fetched(result_of(ranks, all)), 0u) << flags[1] << flags.back();
  }
}

/// The model in two files; the path of the first.
std::string split_model(const std::string& folder) {
  const gguf::File whole = gguf::File::open(kModel);
  const std::size_t tensors = whole.tensors().size();
  for (const int part : {0, 1}) {
    std::ofstream out(folder + "/m-0000" + std::to_string(part + 1) + "-of-00002.gguf", std::ios::binary);
    gguf::Writer writer([&](std::span<const std::byte> bytes) {
      out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    });
    if (part == 0) {
      for (const gguf::RawPair& pair : whole.raw_metadata()) writer.set_raw(pair.key, pair.value);
    }
    writer.set_u32("split.no", static_cast<std::uint32_t>(part));
    writer.set_u32("split.count", 2);
    const std::size_t begin = part == 0 ? 0 : tensors / 2, end = part == 0 ? tensors / 2 : tensors;
    for (std::size_t i = begin; i < end; ++i) writer.add_tensor(whole.tensors()[i].name, whole.tensors()[i].type, whole.tensors()[i].shape);
    writer.begin();
    for (std::size_t i = begin; i < end; ++i) writer.data({whole.tensors()[i].data, whole.tensors()[i].bytes});
  }
  return folder + "/m-00001-of-00002.gguf";
}

TEST_F(FetchTest, SplitModel_hasTheSameBits) {
  const std::string model = split_model(folder_.path().string());
  const auto expected = alone();
  expect_equal(alone(model), expected, "split");
  const Arguments flags{"-m", "{FILE}" + model, "--layer-split", "0.3,0.3,0.4"};
  const auto first = result_of(3, flags);
  expect_equal(first, expected, "fetched");
  EXPECT_GT(fetched(first), 0u);
  EXPECT_EQ(fetched(result_of(3, flags)), 0u);
}

TEST_F(FetchTest, RanksOfOneCache_shareIt) {
  const auto expected = alone();
  const Arguments flags{"-m", "{FILE}" + kModel, "--layer-split", "0.4,0.3,0.3", "--weights-cache", folder_ / "shared"};
  Arguments first = yamata(of_rank(0, flags), 1), other = yamata(of_rank(1, flags));
  other.resize(other.size() - 2);  // the cache of rank 1
  first.insert(first.end(), {":", "-np", "2"});
  first.insert(first.end(), other.begin(), other.end());
  const Outcome outcome = run(first);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_equal(nlohmann::json::parse(read_file(folder_ / "r.json")), expected, "shared");
}

void expect_one_line(const Outcome& outcome, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  for (const std::string& word : words) EXPECT_NE(outcome.complaints()[0].find(word), std::string::npos) << outcome.err;
}

TEST_F(FetchTest, Faults_areOneLine) {
  const Arguments never{"-m", "{FILE}" + kModel, "--layer-split", "0.5,0.5", "--fetch", "never"};
  expect_one_line(outcome_of(2, never), {"rank 1", "nowhere"});
  write_file(cache(1), "a file, not a folder");
  expect_one_line(outcome_of(2, {"-m", "{FILE}" + kModel, "--layer-split", "0.5,0.5"}), {"rank 1", cache(1), "--fetch memory"});
}

TEST_F(FetchTest, CommandFetch_listsVerifiesAndRemoves) {
  const auto fetch = [&](const Arguments& flags) {
    Arguments arguments{"fetch", "--weights-cache", cache(1)};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return run(yamata(arguments));
  };
  EXPECT_NE(fetch({}).out.find("no fetched models"), std::string::npos);
  result_of(2, {"-m", "{FILE}" + kModel, "--layer-split", "0.5,0.5"});
  EXPECT_NE(fetch({}).out.find(fs::path(kModel).filename().string()), std::string::npos);
  EXPECT_NE(fetch({"--verify"}).out.find(", 0 damaged"), std::string::npos);
  damage_copies(1, "part-1.gguf", 5000);
  EXPECT_NE(fetch({"--verify"}).out.find(", 1 damaged"), std::string::npos);
  EXPECT_EQ(fetch({"--remove", "0123"}).code, 1);
  EXPECT_EQ(fetch({"--remove", "all"}).code, 0);
  EXPECT_NE(fetch({}).out.find("no fetched models"), std::string::npos);
}

TEST_F(FetchTest, AnotherFile_isStillAnError) {
  const std::string model = folder_ / "model.gguf";
  fs::copy_file(kModel, model);
  fs::create_directories(folder_ / "nowhere" + folder_.path().string());
  fs::copy_file(kDraft, folder_ / "nowhere" + model);
  expect_one_line(outcome_of(2, {"-m", "{FILE}" + model, "--layer-split", "0.5,0.5"}), {"rank 1", "copy the same file"});
}

}  // namespace
}  // namespace yamata::test
