// Written files are read back; for any header, a file is either read and can be used, or refused by name.
#include "src/safetensors/safetensors.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "node/error.hpp"
#include "src/safetensors/writer.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::safetensors {
namespace {

std::string file_of(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + std::string(data, '\x3c');
}

std::string sample() {
  static const std::vector<float> floats{1, -2.5f, 3e20f};
  static const std::vector<std::uint16_t> halves{0x3c00, 0xc100, 0x0001, 0x7c00}, brains{0x3f80, 0xc000};
  static const std::vector<std::int64_t> longs{1, -5};
  static const std::vector<std::int32_t> ints{7, 8, -9};
  static const std::vector<std::uint8_t> bools{1};
  std::string bytes;
  write({{"a.weight", "F32", {3}, std::as_bytes(std::span(floats))},
         {"b", "F16", {2, 2}, std::as_bytes(std::span(halves))},
         {"c", "BF16", {2, 1}, std::as_bytes(std::span(brains))},
         {"d2t", "I64", {2}, std::as_bytes(std::span(longs))},
         {"ids", "I32", {1, 3}, std::as_bytes(std::span(ints))},
         {"nothing", "F32", {0, 4}, {}},
         {"t2d", "BOOL", {1}, std::as_bytes(std::span(bools))}},
        {{"heads", "4"}}, [&](std::span<const std::byte> part) { bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); });
  return bytes;
}

/// The error with which a file is refused; empty: it is accepted.
std::string fault_of(const std::string& bytes) {
  try {
    File::parse(std::as_bytes(std::span(bytes)), "x.safetensors");
  } catch (const ModelError& e) {
    return e.what();
  }
  return "";
}

TEST(Safetensors, WhatIsWritten_isReadAgain) {
  const std::string bytes = sample();
  const File file = File::parse(std::as_bytes(std::span(bytes)), "x");
  EXPECT_EQ(file.tensors().size(), 7u);
  EXPECT_EQ(file.metadata().at("heads"), "4");
  EXPECT_EQ(file.find("a.weight")->floats(), (std::vector<float>{1, -2.5f, 3e20f}));
  EXPECT_EQ(file.find("b")->shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(file.find("b")->floats(), (std::vector<float>{1, -2.5f, 0x1p-24f, INFINITY}));
  EXPECT_EQ(file.find("c")->floats(), (std::vector<float>{1, -2}));
  EXPECT_EQ(file.find("d2t")->integers(), (std::vector<std::int64_t>{1, -5}));
  EXPECT_EQ(file.find("ids")->integers(), (std::vector<std::int64_t>{7, 8, -9}));
  EXPECT_EQ(file.find("nothing")->elements(), 0);
  EXPECT_EQ(file.find("aa"), nullptr);
  EXPECT_THROW(file.find("t2d")->floats(), ModelError);
  EXPECT_THROW(file.find("a.weight")->integers(), ModelError);
}

TEST(Safetensors, TextsOfMetadataThatAreNotUtf8_areWrittenWithReplacements) {
  std::string bytes;
  safetensors::write({}, {{"model", "a\xff"}},
                     [&](std::span<const std::byte> part) { bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); });
  EXPECT_EQ(File::parse(std::as_bytes(std::span(bytes)), "x").metadata().at("model"), "a\xEF\xBF\xBD");
}

TEST(Safetensors, HeadsOfTheDemonstrationModel_areRead) {
  const File medusa = File::open(test::source_path("/models/tales-medusa.safetensors"));
  EXPECT_EQ(medusa.tensors().size(), 12u);
  EXPECT_EQ(medusa.find("3.1.weight")->shape, (std::vector<std::int64_t>{4096, 256}));
  EXPECT_EQ(medusa.metadata().at("medusa_num_heads"), "4");
}

TEST(Safetensors, ImpossibleHeaders_areRefusedByName) {
  const auto entry = [](const std::string& type, const std::string& shape, const std::string& place) {
    return R"({"t":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + place + "}}";
  };
  ASSERT_EQ(fault_of(file_of(entry("F32", "[2,2]", "[0,16]"), 16)), "");
  const struct {
    std::string header;
    std::size_t data;
    const char* says;
  } cases[] = {
      {"[]", 0, "no JSON object"},
      {R"({"t":1)", 0, "no JSON object"},
      {R"({"t":1})", 0, "tensor t: it has no type"},
      {entry("F33", "[4]", "[0,16]"), 16, "type 'F33'"},
      {entry("F32", "[4,-1]", "[0,16]"), 16, "shape is no whole number"},
      {entry("F32", "[2.5]", "[0,10]"), 10, "shape is no whole number"},
      {entry("F32", "[5]", "[0,16]"), 16, "shape is not that of its bytes"},
      {entry("F32", "[4294967296,4294967296,4]", "[0,16]"), 16, "shape is not that of its bytes"},
      {entry("F32", "[4]", "[0,17]"), 16, "beyond the file's end"},
      {entry("F32", "[4]", "[16,0]"), 16, "beyond the file's end"},
      {entry("F32", "[4]", "[4,20]"), 20, "begin where"},
      {entry("F32", "[4]", "[0,16]"), 17, "bytes behind"},
      {R"({"a":{"dtype":"I8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"I8","shape":[8],"data_offsets":[4,12]}})", 12, "tensor b"},
      {R"({"a":{"dtype":"I8","shape":[8],"data_offsets":[0,8]},"a":{"dtype":"I8","shape":[8],"data_offsets":[0,8]}})", 8,
       "tensor a is there twice"},
      {R"({"__metadata__":{"x":1}})", 0, "metadata"},
      {std::string(200000, '['), 0, "no JSON object"},
      {R"({"\u001b[2J)" + std::string(5000, 'x') + R"(":1})", 0, "tensor ?[2J"},
  };
  for (const auto& c : cases) {
    const std::string fault = fault_of(file_of(c.header, c.data));
    EXPECT_NE(fault.find(c.says), std::string::npos) << c.header.substr(0, 100) << "\n" << fault;
    EXPECT_LT(fault.size(), 400u);
  }
  EXPECT_NE(fault_of("short").find("ends before its header"), std::string::npos);
  EXPECT_NE(fault_of(std::string(64, '\xff')).find("longer than the file"), std::string::npos);
  const test::TemporaryFolder folder;
  EXPECT_THROW(File::open(folder / "absent.safetensors"), ModelError);
}

TEST(Safetensors, HundredThousandMutatedHeaders_areReadOrRefused) {
  const std::string whole = sample();
  std::uint64_t header_bytes = 0;  // including its length
  std::memcpy(&header_bytes, whole.data(), sizeof(header_bytes));
  header_bytes += sizeof(header_bytes);
  std::mt19937_64 random(26);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  constexpr const char* kWords[] = {
      "[", "]", "{", "}", "\"", ",", ":", "0", "-1", "1e9", "null", "18446744073709551615", "9223372036854775807", "F16", "\xff"};
  std::size_t read = 0;
  volatile double sink = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::string bytes = whole;
    for (std::size_t n = 1 + below(3); n > 0; --n) {
      const std::size_t at = below(std::min<std::size_t>(bytes.size(), header_bytes));
      const std::string word = kWords[below(std::size(kWords))];
      switch (below(5)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
          break;
        case 1:
          bytes.replace(at, std::min(word.size(), bytes.size() - at), word);
          break;
        case 2:
          bytes.insert(at, word);
          break;
        case 3:
          bytes.erase(at, 1 + below(8));
          break;
        default:
          bytes.insert(at, bytes.substr(at, 1 + below(30)));
      }
      if (bytes.empty()) bytes = "x";
    }
    if (below(4) > 0 && bytes.size() > whole.size() - header_bytes + sizeof(std::uint64_t)) {  // a length that matches the changed header
      const std::uint64_t length = bytes.size() - (whole.size() - header_bytes) - sizeof(std::uint64_t);
      bytes.replace(0, sizeof(length), reinterpret_cast<const char*>(&length), sizeof(length));
    }
    // The memory ends where the bytes end, so that sanitizers detect reads beyond them.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    try {
      const File file = File::parse(std::as_bytes(std::span(exact)), "x");
      ++read;
      for (const Tensor& tensor : file.tensors()) {
        if (tensor.type == Type::kI32 || tensor.type == Type::kI64) {
          for (const std::int64_t value : tensor.integers()) sink = sink + static_cast<double>(value);
        } else if (tensor.type != Type::kOther) {
          for (const float value : tensor.floats()) sink = sink + static_cast<double>(value);
        }
      }
    } catch (const ModelError& e) {
      ASSERT_EQ(std::string_view(e.what()).find_first_of("\r\n\x1b"), std::string_view::npos) << e.what();
    }
  }
  // The test is only useful if some files are read and some refused.
  EXPECT_GT(read, 2'000u);
  EXPECT_LT(read, 90'000u);
}

}  // namespace
}  // namespace yamata::safetensors
