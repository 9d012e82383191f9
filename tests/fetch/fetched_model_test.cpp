// A rank's copy of a model: whatever happens to its files, what counts as present has the bytes of rank 0.
#include "src/fetch/fetched_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "node/error.hpp"
#include "src/fetch/weights_cache.hpp"
#include "src/model/model_file.hpp"
#include "src/model/weights.hpp"
#include "tests/fetch/source.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/thorough.hpp"

namespace yamata::test {
namespace {

using fetch::FetchedModel;

class Copies : public testing::Test {
 protected:
  std::shared_ptr<FetchedModel> open(const Source& source) const {
    return FetchedModel::in_folder(folder_.path().string(), source.shape());
  }
  std::string path(const std::string& name) const { return fetch::model_folder(folder_.path().string(), 0x1234) + "/" + name; }
  /// The number of chunks that a new process would fetch; all of its bytes are right then.
  int fetched_again(const Source& source) const {
    const auto copy = open(source);
    const int fetched = source.fetch_all(*copy);
    source.expect_equal(copy);
    return fetched;
  }
  void flip(const std::string& name, std::uint64_t at) const {
    std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 0x10));
  }

  TemporaryFolder folder_;
};

TEST_F(Copies, SecondUse_fetchesNothing) {
  const Source source;
  EXPECT_EQ(fetched_again(source), 3);
  EXPECT_EQ(fetched_again(source), 0);
}

TEST_F(Copies, SplitModel_hasACopyOfEachFile) {
  const Source source(3);
  EXPECT_EQ(fetched_again(source), 9);
  EXPECT_EQ(fetched_again(source), 0);
  flip("part-2.gguf", source.shape().parts[1].header.size() + 2'000'000);
  EXPECT_EQ(fetched_again(source), 1);
}

TEST_F(Copies, Hole_isRefused) {
  const Source source;
  const auto copy = open(source);
  const gguf::File file = FetchedModel::open(copy, "copy");
  const gguf::Tensor& many = file.tensor("part0.many");
  const std::span<const std::byte> all{many.data, many.bytes};
  EXPECT_THROW(file.require_present(many, all), ModelError);
  ASSERT_TRUE(copy->try_lock());
  copy->put(1, source.chunk(1), checksum(source.chunk(1)));
  const std::size_t header = source.shape().parts[0].header.size();
  const auto in_file = [&](std::size_t at) { return file.parts()[0].bytes.data() + header + at; };
  EXPECT_NO_THROW(file.require_present(many, {in_file(1u << 20), 1u << 20})) << "chunk 1";
  EXPECT_THROW(file.require_present(many, {in_file((1u << 20) - 1), 2}), ModelError) << "its last byte is in chunk 1, the first is not";
  EXPECT_THROW(file.require_present(many, {in_file((2u << 20) - 1), 2}), ModelError) << "and the other way round";
  EXPECT_THROW(file.require_present(many, all), ModelError);
}

TEST_F(Copies, OnDisk_isNoModelForOtherPrograms) {
  const Source source;
  fetched_again(source);
  EXPECT_THROW(gguf::File::open(path("part-1.gguf")), ModelError);
}

TEST_F(Copies, FlippedByteOfData_isFetchedAgain) {
  const Source source;
  fetched_again(source);
  for (const std::uint64_t chunk : {0u, 1u, 2u}) {
    flip("part-1.gguf", fetch::ChunkMap(source.shape()).place(chunk).begin + 17);
    EXPECT_EQ(fetched_again(source), 1) << chunk;
  }
}

TEST_F(Copies, FlippedByteOfTheSideFile_givesNoWrongBytes) {
  const Source source;
  fetched_again(source);
  const auto bytes = std::filesystem::file_size(path("have"));
  for (std::uint64_t at = 0; at < bytes; ++at) {
    flip("have", at);
    EXPECT_GT(fetched_again(source), 0) << at;
  }
}

TEST_F(Copies, TruncatedFiles_areFetchedAgain) {
  const Source source;
  fetched_again(source);
  std::filesystem::resize_file(path("have"), std::filesystem::file_size(path("have")) - 1);
  EXPECT_EQ(fetched_again(source), 3);
  std::filesystem::resize_file(path("part-1.gguf"), source.shape().parts[0].bytes - 100);
  EXPECT_EQ(fetched_again(source), 1);
  std::filesystem::resize_file(path("part-1.gguf"), 0);
  EXPECT_EQ(fetched_again(source), 3);
  std::filesystem::remove(path("part-1.gguf"));
  EXPECT_EQ(fetched_again(source), 3);
}

TEST_F(Copies, SideFileOfAnotherVersionOrModel_isNotBelieved) {
  const Source source, other(2);
  fetched_again(source);
  flip("have", 7);
  EXPECT_EQ(fetched_again(source), 3);
  EXPECT_EQ(fetched_again(other), 6) << "the same fingerprint, but other files";
}

TEST_F(Copies, ProcessThatEndsEarly_leavesNothingWrong) {
  const Source source;
  {
    const auto copy = open(source);
    ASSERT_TRUE(copy->try_lock());
    copy->put(0, source.chunk(0), checksum(source.chunk(0)));
    copy->flush();
    copy->put(1, source.chunk(1), checksum(source.chunk(1)));  // not marked yet
  }
  EXPECT_EQ(fetched_again(source), 2);
}

TEST_F(Copies, TwoProcesses_writeOneAfterTheOther) {
  const Source source;
  const auto first = open(source), second = open(source);
  ASSERT_TRUE(first->try_lock());
  EXPECT_FALSE(second->try_lock());
  first->put(0, source.chunk(0), checksum(source.chunk(0)));
  first->unlock();
  EXPECT_EQ(source.fetch_all(*second), 2) << "one is there";
  source.expect_equal(second);
}

TEST_F(Copies, ModelInUse_isNotRemoved) {
  const Source source;
  {
    const auto copy = open(source);
    source.fetch_all(*copy);
    const auto models = fetch::list_models(folder_.path().string());
    ASSERT_EQ(models.size(), 1u);
    EXPECT_FALSE(fetch::remove_model(models.front()));
    EXPECT_THROW(fetch::verify_model(models.front()), ModelError);
    source.expect_equal(copy);
  }
  const auto models = fetch::list_models(folder_.path().string());
  EXPECT_EQ(models.front().name, "source.gguf");
  EXPECT_EQ(models.front().whole_bytes, source.bytes(0).size());
  EXPECT_EQ(models.front().present_bytes, source.bytes(0).size() - source.shape().parts[0].header.size());
  EXPECT_TRUE(fetch::remove_model(models.front()));
  EXPECT_TRUE(fetch::list_models(folder_.path().string()).empty());
}

TEST_F(Copies, DiskThatIsTooSmallForAModel_keepsTheOthers) {
  const Source source;
  fetched_again(source);
  fetch::make_room(folder_.path().string(), std::uint64_t{1} << 62);
  EXPECT_EQ(fetch::list_models(folder_.path().string()).size(), 1u);
  EXPECT_EQ(fetched_again(source), 0);
}

TEST_F(Copies, Verification_findsAFlippedByte) {
  const Source source;
  fetched_again(source);
  const auto verified = [&] { return fetch::verify_model(fetch::list_models(folder_.path().string()).front()); };
  EXPECT_EQ(verified().chunks, 3u);
  flip("part-1.gguf", source.shape().parts[0].bytes - 1);
  EXPECT_EQ(verified().wrong, 1u);
  EXPECT_EQ(verified().wrong, 0u) << "it counts as absent now";
  EXPECT_EQ(fetched_again(source), 1);
}

TEST_F(Copies, FolderThatCannotBeMade_isNamedWithTheRemedy) {
  const Source source;
  std::ofstream(folder_ / "file") << "x";
  try {
    FetchedModel::in_folder(folder_ / "file", source.shape());
    FAIL();
  } catch (const ModelError& error) {
    EXPECT_NE(std::string(error.what()).find("--fetch memory"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(folder_ / "file"), std::string::npos) << error.what();
  }
}

TEST(CopiesInMemory, HaveTheSameBytes) {
  const Source source(2);
  const auto copy = FetchedModel::in_memory(source.shape());
  EXPECT_EQ(source.fetch_all(*copy), 6);
  source.expect_equal(copy);
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Damages a file's bytes in up to four places, and may cut it.
std::string damaged(std::string bytes, std::mt19937& random) {
  const auto any = [&](std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random); };
  for (std::size_t faults = 1 + any(4); faults > 0; --faults) {
    if (any(4) == 0) bytes.resize(any(bytes.size()) + 1);
    bytes[any(bytes.size())] = static_cast<char>(any(256));
  }
  return bytes;
}

TEST_F(Copies, DamagedSideFile_neverMakesWrongBytesCount) {
  const Source source;
  fetched_again(source);
  const std::string good = contents(path("have"));
  flip("part-1.gguf", fetch::ChunkMap(source.shape()).place(1).begin);  // chunk 1 is wrong
  std::mt19937 random(7);
  const int cases = thorough() ? 5000 : 100;
  for (int i = 0; i < cases; ++i) {
    std::ofstream(path("have"), std::ios::binary | std::ios::trunc) << damaged(good, random);
    fetch::list_models(folder_.path().string());
    const auto copy = open(source);
    ASSERT_TRUE(copy->try_lock());
    EXPECT_FALSE(copy->verify(1)) << i;
    copy->unlock();
  }
}

TEST_F(Copies, DamagedSideFile_isReadOrRefusedWithoutHarm) {
  const Source source(2);
  fetched_again(source);
  const std::string good = contents(path("have"));
  ASSERT_TRUE(fetch::parse_have(gguf_test::as_span(good)));
  std::mt19937 random(8);
  const int cases = thorough() ? 100'000 : 2000;
  for (int i = 0; i < cases; ++i) {
    const std::string bytes = damaged(good, random);
    const auto content = fetch::parse_have(gguf_test::as_span(bytes));
    if (content) {
      EXPECT_EQ(content->shape.fingerprint, source.shape().fingerprint) << i;
    }
  }
}

/// The demonstration's target, of which nothing has been fetched.
TEST(StageOfHoles, IsRefused_exceptForATime) {
  const ModelFile whole = ModelFile::open(source_path("/models/tales-target-q8_0.gguf"));
  const auto part = whole.file.parts().front();
  const auto header = part.bytes.first(part.header_bytes);
  const auto copy = FetchedModel::in_memory(
      {.fingerprint = 1, .name = "target", .parts = {{"part-1.gguf", part.bytes.size(), {header.begin(), header.end()}}}});
  const ModelFile holes = ModelFile::of(FetchedModel::open(copy, "holes"));
  const Shard all(holes.h);
  EXPECT_NO_THROW(StageWeights::find(holes.file, holes.h, {2, 4}, all, WeightUse::kTime));
  EXPECT_THROW(StageWeights::find(holes.file, holes.h, {2, 4}, all), ModelError);
  EXPECT_THROW(StageWeights::find_rest(holes.file, holes.h), ModelError);
  for (const FoundTensor& found : find_tensors(holes.file, holes.h, {2, 4}, all)) {
    const auto [begin, end] = copy->chunks_of(holes.file, found.bytes());
    for (std::uint64_t chunk = begin; chunk < end; ++chunk) {
      const fetch::ChunkPlace place = copy->map().place(chunk);
      const auto bytes = part.bytes.subspan(place.begin, place.bytes);
      copy->put(chunk, bytes, checksum(bytes));
    }
  }
  EXPECT_NO_THROW(StageWeights::find(holes.file, holes.h, {2, 4}, all));
  EXPECT_THROW(StageWeights::find(holes.file, holes.h, {1, 4}, all), ModelError);
}

TEST(ChunkMap, Chunks_coverAllDataOnce) {
  const Source source(2);
  const fetch::ChunkMap map(source.shape());
  std::uint64_t at = source.shape().parts[0].header.size();
  std::size_t part = 0;
  for (std::uint64_t chunk = 0; chunk < map.count(); ++chunk) {
    const fetch::ChunkPlace place = map.place(chunk);
    if (place.part != part) {
      EXPECT_EQ(at, source.shape().parts[part].bytes);
      part = place.part, at = source.shape().parts[part].header.size();
    }
    EXPECT_EQ(place.begin, at);
    at += place.bytes;
    EXPECT_EQ(map.range(part, place.begin, place.bytes).begin, chunk);
    EXPECT_EQ(map.range(part, place.begin, place.bytes).end, chunk + 1);
  }
  EXPECT_EQ(at, source.shape().parts[1].bytes);
}

TEST(ModelShape, FilesThatCannotExist_areRefused) {
  const auto refused = [](fetch::PartShape part) {
    try {
      fetch::validate({.fingerprint = 1, .name = "x", .parts = {std::move(part)}});
      return false;
    } catch (const ClusterError&) {
      return true;
    }
  };
  EXPECT_FALSE(refused({"part-1.gguf", 10, std::vector<std::byte>(10)}));
  EXPECT_TRUE(refused({"part-1.gguf", 10, std::vector<std::byte>(11)}));
  EXPECT_TRUE(refused({"part-1.gguf", std::uint64_t{1} << 60}));
  for (const char* name : {"", ".", "..", "../x", "a/b", "have", ".hidden"}) EXPECT_TRUE(refused({name, 10})) << name;
}

}  // namespace
}  // namespace yamata::test
