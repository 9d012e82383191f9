// The contents of valid files are read correctly.
#include "src/gguf/gguf.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "node/error.hpp"
#include "node/lost_pages.hpp"
#include "tests/gguf/support.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::gguf {
namespace {

using namespace gguf_test;

File parse(const std::string& bytes) { return File::parse(as_span(bytes), "test.gguf"); }

std::string error_of(const std::filesystem::path& path) {
  try {
    File::open(path);
  } catch (const ModelError& error) {
    return error.what();
  }
  return "";
}

/// A folder that is removed with the test.
class GgufFolder : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    write_file(folder_ / name, bytes);
    return folder_ / name;
  }
  /// Part `number` (from 0) of three; it has the tensor t<number>.
  std::filesystem::path write_part(int number, int says = -1) const {
    Writer part;
    part.scalar<std::uint16_t>("split.no", kU16, static_cast<std::uint16_t>(says < 0 ? number : says))
        .scalar<std::uint16_t>("split.count", kU16, 3);
    if (number == 0) part.string("general.architecture", "llama");
    part.tensor("t" + std::to_string(number), {4}, 0, 16);
    return write("m-0000" + std::to_string(number + 1) + "-of-00003.gguf", part.finish());
  }

  test::TemporaryFolder folder_;
};

TEST(Gguf, scalars_of_every_type_are_read) {
  for (const std::uint32_t version : {2u, 3u}) {
    Writer writer(version);
    writer.scalar<std::uint8_t>("u8", kU8, 255).scalar<std::int8_t>("i8", kI8, -128);
    writer.scalar<std::uint16_t>("u16", kU16, 65535).scalar<std::int16_t>("i16", kI16, -32768);
    writer.scalar<std::uint32_t>("u32", kU32, 4294967295u).scalar<std::int32_t>("i32", kI32, INT32_MIN);
    writer.scalar<std::uint64_t>("u64", kU64, UINT64_MAX).scalar<std::int64_t>("i64", kI64, INT64_MIN);
    writer.scalar<float>("f32", kF32, 0.25f).scalar<double>("f64", kF64, -1e300);
    writer.scalar<std::uint8_t>("yes", kBool, 1).scalar<std::uint8_t>("no", kBool, 0).string("text", "a \n b").string("", "");
    const std::string bytes = writer.finish();
    const File file = parse(bytes);
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.integer("u8"), 255);
    EXPECT_EQ(file.integer("i8"), -128);
    EXPECT_EQ(file.integer("u16"), 65535);
    EXPECT_EQ(file.integer("i16"), -32768);
    EXPECT_EQ(file.integer("u32"), 4294967295);
    EXPECT_EQ(file.integer("i32"), INT32_MIN);
    EXPECT_EQ(std::get<std::uint64_t>(file.metadata().at("u64")), UINT64_MAX);
    EXPECT_THROW(file.integer("u64"), ModelError);  // does not fit
    EXPECT_EQ(file.integer("i64"), INT64_MIN);
    EXPECT_EQ(file.number("f32"), 0.25);
    EXPECT_EQ(file.number("f64"), -1e300);
    EXPECT_EQ(file.number("i8"), -128.0);
    EXPECT_EQ(file.boolean("yes"), true);
    EXPECT_EQ(file.boolean("no"), false);
    EXPECT_EQ(file.string("text"), "a \n b");
    EXPECT_EQ(file.string(""), "");
    EXPECT_EQ(file.metadata().size(), 14u);
  }
}

TEST(Gguf, arrays_of_every_type_are_read) {
  Writer writer;
  writer.array<std::uint8_t>("u8", kU8, {0, 255}).array<std::int8_t>("i8", kI8, {-128, 127}).array<std::uint16_t>("u16", kU16, {1, 65535});
  writer.array<std::int16_t>("i16", kI16, {-1, 1}).array<std::uint32_t>("u32", kU32, {1, 2}).array<std::int32_t>("i32", kI32, {-7, 7});
  writer.array<std::uint64_t>("u64", kU64, {1, 1u << 20}).array<std::int64_t>("i64", kI64, {-5, 5});
  writer.array<float>("f32", kF32, {0.5f, -0.5f}).array<double>("f64", kF64, {1.5, 2.5});
  writer.array<std::uint8_t>("bool", kBool, {1, 0, 2}).strings("text", {"", "two"}).array<float>("none", kF32, {});
  const std::string bytes = writer.finish();
  const File file = parse(bytes);
  using Numbers = std::vector<double>;
  EXPECT_EQ(file.numbers("u8"), (Numbers{0, 255}));
  EXPECT_EQ(file.numbers("i8"), (Numbers{-128, 127}));
  EXPECT_EQ(file.numbers("u16"), (Numbers{1, 65535}));
  EXPECT_EQ(file.numbers("i16"), (Numbers{-1, 1}));
  EXPECT_EQ(file.numbers("u32"), (Numbers{1, 2}));
  EXPECT_EQ(file.numbers("i32"), (Numbers{-7, 7}));
  EXPECT_EQ(file.numbers("u64"), (Numbers{1, 1 << 20}));
  EXPECT_EQ(file.numbers("i64"), (Numbers{-5, 5}));
  EXPECT_EQ(file.numbers("f32"), (Numbers{0.5, -0.5}));
  EXPECT_EQ(file.numbers("f64"), (Numbers{1.5, 2.5}));
  EXPECT_EQ(std::get<std::vector<bool>>(file.metadata().at("bool")), (std::vector<bool>{true, false, true}));
  ASSERT_NE(file.strings("text"), nullptr);
  EXPECT_EQ(*file.strings("text"), (std::vector<std::string>{"", "two"}));
  EXPECT_TRUE(file.numbers("none").empty());
}

TEST(Gguf, absent_keys_give_nothing_and_other_kinds_name_the_key) {
  const std::string bytes = Writer().string("k", "v").scalar<float>("f", kF32, 1).finish();
  const File file = parse(bytes);
  EXPECT_FALSE(file.integer("x") || file.number("x") || file.boolean("x") || file.string("x"));
  EXPECT_EQ(file.strings("x"), nullptr);
  EXPECT_TRUE(file.numbers("x").empty());
  EXPECT_THROW(file.number("k"), ModelError);
  EXPECT_THROW(file.boolean("k"), ModelError);
  EXPECT_THROW(file.strings("k"), ModelError);
  EXPECT_THROW(file.numbers("k"), ModelError);
  EXPECT_THROW(file.integer("f"), ModelError);
  try {
    file.string("f");
    ADD_FAILURE() << "a float was read as a string";
  } catch (const ModelError& error) {
    EXPECT_STREQ(error.what(), "test.gguf: metadata f is not a string");
  }
}

TEST(Gguf, tensors_of_every_type_have_their_size) {
  struct Case {
    std::uint32_t type;
    std::uint64_t bytes;
  };  // bytes of 256 elements, from the formats' definitions
  const Case cases[] = {{0, 1024}, {1, 512},  {2, 144},  {3, 160},  {6, 176},  {7, 192},  {8, 272}, {10, 84},
                        {11, 110}, {12, 144}, {13, 176}, {14, 210}, {20, 144}, {23, 136}, {30, 512}};
  Writer writer;
  for (const Case& c : cases) writer.tensor("t" + std::to_string(c.type), {256, 3}, c.type, 3 * c.bytes);
  const std::string bytes = writer.finish();
  const File file = parse(bytes);
  ASSERT_EQ(file.tensors().size(), std::size(cases));
  for (const Case& c : cases) {
    const Tensor& tensor = file.tensor("t" + std::to_string(c.type));
    EXPECT_EQ(tensor.bytes, 3 * c.bytes) << tensor.name;
    EXPECT_EQ(static_cast<std::uint32_t>(tensor.type), c.type);
    EXPECT_EQ(tensor.cols(), 256);
    EXPECT_EQ(tensor.rows(), 3);
  }
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_THROW(file.tensor("absent"), ModelError);
}

TEST(Gguf, data_begins_at_the_alignment) {
  for (const std::uint64_t alignment : {8u, 32u, 64u, 4096u}) {
    Writer writer;
    writer.alignment(alignment).scalar<std::uint32_t>("general.alignment", kU32, static_cast<std::uint32_t>(alignment));
    writer.tensor("a", {1, 2, 3, 4}, 0, 96).tensor("b", {3}, 0, 12);
    const std::string bytes = writer.finish();
    const File file = parse(bytes);
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
    EXPECT_EQ(static_cast<std::size_t>(file.tensor("a").data - begin) % alignment, 0u);
    EXPECT_EQ(file.tensor("a").data[95], std::byte{95});
    const std::uint64_t second = (96 + alignment - 1) / alignment * alignment;
    EXPECT_EQ(file.tensor("b").data[0], static_cast<std::byte>(second % 251));
    EXPECT_EQ(file.tensor("b").data + 12, begin + bytes.size());
    EXPECT_EQ(file.tensor("a").rows(), 24);
  }
}

TEST(Gguf, fingerprint_sees_header_and_data) {
  const std::string one = sentencepiece_model().finish();
  std::string other = one;
  other.back() ^= 1;
  EXPECT_EQ(parse(one).fingerprint(), parse(std::string(one)).fingerprint());
  EXPECT_NE(parse(one).fingerprint(), parse(other).fingerprint());
  EXPECT_NE(parse(one).fingerprint(), parse(bpe_model().finish()).fingerprint());
}

TEST(Gguf, fingerprintOfAFileThatIsTruncated_isNone) {
  survive_lost_pages();
  const test::TemporaryFolder folder;
  const std::string path = folder / "model.gguf";
  std::filesystem::copy_file(test::source_path("/models/tales-draft-q8_0.gguf"), path);
  const File file = File::open(path);
  std::filesystem::resize_file(path, 0);
  EXPECT_THROW(file.fingerprint(), LostPages);
}

TEST_F(GgufFolder, split_file_is_read_from_its_first_part) {
  const auto first = write_part(0);
  write_part(1);
  write_part(2);
  const File file = File::open(first);
  ASSERT_EQ(file.tensors().size(), 3u);
  for (const char* name : {"t0", "t1", "t2"}) EXPECT_EQ(file.tensor(name).data[15], std::byte{15}) << name;
  EXPECT_EQ(file.string("general.architecture"), "llama");
  EXPECT_EQ(file.integer("split.no"), 0);
}

TEST_F(GgufFolder, split_file_names_the_part_that_is_missing_or_wrong) {
  const auto first = write_part(0);
  write_part(1);
  EXPECT_NE(error_of(first).find("m-00003-of-00003.gguf"), std::string::npos) << error_of(first);
  write_part(2, 1);
  EXPECT_NE(error_of(first).find("m-00003-of-00003.gguf is not part 3"), std::string::npos) << error_of(first);
  EXPECT_NE(error_of(folder_ / "m-00002-of-00003.gguf").find("not the first part"), std::string::npos);
  std::filesystem::rename(first, folder_ / "renamed.gguf");
  EXPECT_NE(error_of(folder_ / "renamed.gguf").find("-00001-of-00003.gguf"), std::string::npos);
}

TEST_F(GgufFolder, what_is_no_file_is_named) {
  EXPECT_NE(error_of(folder_ / "none.gguf").find("none.gguf: No such file"), std::string::npos);
  EXPECT_NE(error_of(folder_.path()).find("is a folder, not a file"), std::string::npos);
  EXPECT_NE(error_of(write("empty.gguf", "")).find("empty.gguf is empty"), std::string::npos);
}

TEST(Gguf, models_of_the_repository_are_read) {
  for (const char* name : {"tales-draft-q8_0.gguf", "tales-target-q8_0.gguf"}) {
    const auto path = std::filesystem::path(test::source_path()) / "models" / name;
    const File file = File::open(path);
    EXPECT_EQ(file.string("general.architecture"), "llama");
    const auto blocks = file.integer("llama.block_count");
    ASSERT_TRUE(blocks.has_value());
    EXPECT_EQ(file.tensors().size(), static_cast<std::size_t>(*blocks) * 9 + 3);
    EXPECT_EQ(file.tensor("token_embd.weight").cols(), file.integer("llama.embedding_length"));
    std::size_t bytes = 0;
    for (const Tensor& tensor : file.tensors()) bytes += tensor.bytes;
    const std::size_t size = std::filesystem::file_size(path);
    EXPECT_LT(bytes, size);
    EXPECT_GT(bytes, size * 9 / 10);
  }
}

}  // namespace
}  // namespace yamata::gguf
