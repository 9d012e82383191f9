// Every kind of damage gives a ModelError of one line that says where it is.
#include <gtest/gtest.h>

#include "node/error.hpp"
#include "src/gguf/gguf.hpp"
#include "tests/gguf/support.hpp"

namespace yamata::gguf {
namespace {

using namespace gguf_test;

/// The error's text; empty if the file was read.
std::string error_of(const std::string& bytes) {
  try {
    File::parse(as_span(bytes), "test.gguf");
  } catch (const ModelError& error) {
    return error.what();
  }
  return "";
}

void expect_error(const std::string& bytes, std::string_view part) {
  const std::string error = error_of(bytes);
  EXPECT_NE(error.find(part), std::string::npos) << "expected: " << part << "\ngot: " << error;
  EXPECT_NE(error.find("test.gguf"), std::string::npos) << error;
  EXPECT_EQ(error.find_first_of("\r\n\x1b"), std::string::npos) << error;
}
void expect_error(const Writer& writer, std::string_view part) { expect_error(writer.finish(), part); }

Entry entry(std::vector<std::uint64_t> shape, std::uint32_t type = 0, std::uint64_t offset = 0) {
  return {"t", std::move(shape), type, offset};
}

std::string uint64(std::uint64_t n) { return Bytes().put(n).str(); }

TEST(GgufDamage, every_prefix_is_an_error) {
  for (const std::string& sample : samples()) {
    ASSERT_EQ(error_of(sample), "");
    for (std::size_t n = 0; n < sample.size(); ++n) {
      const std::string error = error_of(sample.substr(0, n));
      ASSERT_NE(error, "") << "read from " << n << " of " << sample.size() << " bytes";
      ASSERT_EQ(error.find('\n'), std::string::npos) << error;
    }
  }
}

TEST(GgufDamage, cut_file_says_the_offset) {
  const std::string sample = Writer().string("key", "value").finish();
  expect_error(sample.substr(0, sample.size() - 1), "ends inside a metadata value at offset 47");
}

TEST(GgufDamage, wrong_magic_and_version) {
  expect_error(std::string(), "is not a GGUF file");
  expect_error("GGU", "is not a GGUF file");
  expect_error("GGML" + Writer().finish().substr(4), "is not a GGUF file");
  for (const std::uint32_t version : {0u, 1u, 4u, 4294967295u}) expect_error(Writer(version), "GGUF version " + std::to_string(version));
  for (const std::uint32_t version : {0x02000000u, 0x03000000u}) expect_error(Writer(version), "big-endian");
}

TEST(GgufDamage, huge_counts) {
  for (const std::uint64_t n : {std::uint64_t{1000}, std::uint64_t{1} << 32, std::uint64_t{INT64_MAX}, UINT64_MAX}) {
    const std::string count = std::to_string(n);
    expect_error(Writer().counts(n, 0), "tensor count of " + count);
    expect_error(Writer().counts(0, n), "metadata count of " + count);
    for (const std::uint32_t type : {kU8, kU16, kF32, kU64, kBool, kString}) {
      expect_error(Writer().pair("k", kArray, Bytes().put<std::uint32_t>(type).put(n).str()), "array length of " + count);
    }
  }
}

TEST(GgufDamage, lengths_past_the_end) {
  for (const std::uint64_t n : {std::uint64_t{100}, std::uint64_t{INT64_MAX}, UINT64_MAX}) {
    expect_error(Writer().pair("k", kString, uint64(n) + "abc"), "ends inside a metadata value");
    expect_error("GGUF" + Bytes().put(3u).put(std::uint64_t{0}).put(std::uint64_t{1}).put(n).raw("a key, but not so long").str(),
                 "ends inside a metadata key");
    expect_error("GGUF" + Bytes().put(3u).put(std::uint64_t{1}).put(std::uint64_t{0}).put(n).raw("a name, but not so long").str(),
                 "ends inside a tensor's name");
    expect_error(Writer().pair("k", kArray, Bytes().put<std::uint32_t>(kString).put(std::uint64_t{1}).put(n).str()),
                 "ends inside a metadata value");
  }
}

TEST(GgufDamage, metadata_that_makes_no_sense) {
  for (const std::uint32_t type : {13u, 14u, 4294967295u}) {
    expect_error(Writer().pair("k", type, "12345678"), "unknown metadata type " + std::to_string(type));
    expect_error(Writer().pair("k", kArray, Bytes().put(type).put(std::uint64_t{0}).str()), "unknown metadata type");
  }
  const Writer nested = Writer().pair("k", kArray, Bytes().put<std::uint32_t>(kArray).put(std::uint64_t{0}).str());
  expect_error(nested, "metadata k is an array of arrays, which is not supported; write the file without it");
  expect_error(Writer().string("k", "1").string("k", "2"), "metadata key k stands twice");
  for (const std::uint32_t alignment : {0u, 1u, 4u, 33u, 1u << 21, 1u << 31}) {
    expect_error(Writer().scalar("general.alignment", kU32, alignment), "general.alignment is " + std::to_string(alignment));
  }
  expect_error(Writer().string("general.alignment", "32"), "general.alignment is not an integer");
  expect_error(Writer().scalar("general.alignment", kU64, UINT64_MAX), "general.alignment is not an integer");
}

TEST(GgufDamage, shapes_that_make_no_sense) {
  expect_error(Writer().entry(entry({})).data_bytes(64), "tensor t has 0 dimensions");
  expect_error(Writer().entry(entry({1, 1, 1, 1, 1})).data_bytes(64), "tensor t has 5 dimensions");
  for (const auto& shape : std::vector<std::vector<std::uint64_t>>{{0},
                                                                   {4, 0},
                                                                   {4, 4, 4, 0},
                                                                   {1ull << 63},
                                                                   {UINT64_MAX},
                                                                   {1ull << 32, 1ull << 32},
                                                                   {1ull << 32, 1ull << 31},
                                                                   {3, 3074457345618258603ull},
                                                                   {1ull << 16, 1ull << 16, 1ull << 16, 1ull << 16}}) {
    expect_error(Writer().entry(entry(shape)).data_bytes(64), "tensor t has a bad shape");
  }
  expect_error(Writer().entry(entry({1ull << 62})).data_bytes(64), "tensor t");           // the number of bytes overflows 64 bits
  expect_error(Writer().entry(entry({(1ull << 62) + 1}, 0)).data_bytes(64), "tensor t");  // the number of bytes overflows to 4
  expect_error(Writer().entry(entry({16, 2}, 8)).data_bytes(64), "tensor t has rows of 16 elements, not whole blocks of 32 of type Q8_0");
  expect_error(Writer().entry(entry({128, 2}, 12)).data_bytes(256), "not whole blocks of 256");
}

TEST(GgufDamage, types_that_are_not_read) {
  for (const std::uint32_t type : {4u, 5u, 9u, 15u, 24u, 31u, 36u, 1000u, 4294967295u}) {
    expect_error(Writer().entry(entry({256}, type)).data_bytes(1024),
                 "tensor t has type " + std::to_string(type) + ", which is not supported");
  }
}

TEST(GgufDamage, tensors_in_wrong_places) {
  expect_error(Writer().tensor("a", {4}, 0, 16).tensor("a", {4}, 0, 16), "tensor a stands twice");
  for (const std::uint64_t offset : {1u, 16u, 33u})
    expect_error(Writer().entry(entry({4}, 0, offset)).data_bytes(96), "offset " + std::to_string(offset) + ", not a multiple of 32");
  for (const std::uint64_t offset : {std::uint64_t{64}, std::uint64_t{1} << 40, UINT64_MAX - 31}) {
    expect_error(Writer().entry(entry({4}, 0, offset)).data_bytes(64), "tensor t ends beyond the file's");
  }
  expect_error(Writer().entry(entry({17}, 0, 0)).data_bytes(64), "tensor t ends beyond the file's");
  expect_error(Writer().entry(entry({4}, 0, 0)), "tensor t ends beyond the file's");
}

TEST(GgufDamage, overlapping_tensors) {
  const auto two = [](std::uint64_t first, std::uint64_t second) {
    return Writer().entry({"a", {16}, 0, first}).entry({"b", {9}, 0, second}).data_bytes(128);
  };
  EXPECT_EQ(error_of(two(0, 64).finish()), "");
  EXPECT_EQ(error_of(two(64, 0).finish()), "");
  expect_error(two(0, 0), "overlap");
  expect_error(two(0, 32), "tensors a and b overlap");
  expect_error(two(32, 0), "tensors b and a overlap");
}

TEST(GgufDamage, names_do_not_break_the_line) {
  const std::string name = "a\nb\r\x1b[31m";
  expect_error(Writer().string(name, "1").string(name, "2"), "metadata key a\\x0ab\\x0d\\x1b[31m stands twice");
  expect_error(Writer().tensor(name, {4}, 0, 16).tensor(name, {4}, 0, 16), "tensor a\\x0ab\\x0d\\x1b[31m stands twice");
  expect_error(Writer().entry({name, {0}}).data_bytes(32), "bad shape");
  expect_error(Writer().entry({name, {4}, 99}).data_bytes(32), "has type 99");
  expect_error(Writer().entry({name, {4}, 0, 1}).data_bytes(32), "offset 1");
  expect_error(Writer().entry({name, {4}, 0, 320}).data_bytes(32), "ends beyond");
  const std::string page(100000, 'x');
  EXPECT_LT(error_of(Writer().entry({page, {0}}).data_bytes(32).finish()).size(), 300u);
}

}  // namespace
}  // namespace yamata::gguf
