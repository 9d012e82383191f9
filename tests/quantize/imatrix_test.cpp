// Importance matrices in both of their formats.
#include "src/quantize/imatrix.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "node/error.hpp"
#include "src/gguf/writer.hpp"
#include "tests/gguf/support.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::quantize {
namespace {

using gguf_test::Bytes;

std::string legacy() {
  Bytes bytes;
  const auto text = [&](const std::string& value) { bytes.put(static_cast<std::int32_t>(value.size())).raw(value); };
  bytes.put<std::int32_t>(2);
  text("a.weight");
  bytes.put<std::int32_t>(4).put<std::int32_t>(3).put(8.0f).put(2.0f).put(0.0f);
  text("b.weight");
  bytes.put<std::int32_t>(0).put<std::int32_t>(1).put(5.0f);
  bytes.put<std::int32_t>(7);
  text("some.txt");
  return bytes.str();
}

using Table = std::vector<std::pair<std::string, std::vector<float>>>;

std::string modern(const Table& tensors, bool metadata = true) {
  std::string bytes;
  gguf::Writer writer([&](std::span<const std::byte> part) { bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); });
  writer.set_string("general.type", "imatrix");
  if (metadata) {
    const std::string names = Bytes().put<std::uint32_t>(9).put<std::uint32_t>(8).put<std::uint64_t>(1).text("some.txt").str();
    writer.set_raw("imatrix.datasets", gguf_test::as_span(names));
    writer.set_u32("imatrix.chunk_count", 7);
    writer.set_u32("imatrix.chunk_size", 512);
  }
  for (const auto& [name, values] : tensors) {
    const std::int64_t shape[] = {static_cast<std::int64_t>(values.size())};
    writer.add_tensor(name, TensorType::F32, shape);
  }
  writer.begin();
  for (const auto& [name, values] : tensors) writer.data(std::as_bytes(std::span(values)));
  return bytes;
}
const Table kTensors{{"a.weight.in_sum2", {8, 2, 0}}, {"a.weight.counts", {4}}, {"b.weight.in_sum2", {5}}, {"b.weight.counts", {0}}};

class ImatrixFile : public ::testing::Test {
 protected:
  Imatrix open(const std::string& bytes) const {
    gguf_test::write_file(folder_ / "i", bytes);
    return Imatrix::open(folder_ / "i");
  }
  test::TemporaryFolder folder_;
};

TEST_F(ImatrixFile, BothFormats_giveMeansPerColumn) {
  const Imatrix old = open(legacy());
  EXPECT_EQ(old.values.at("a.weight"), (std::vector<float>{2, 0.5f, 0}));
  EXPECT_EQ(old.values.at("b.weight"), (std::vector<float>{5}));  // no calls: the sums themselves
  EXPECT_EQ(old.chunks, 7);
  EXPECT_EQ(old.datasets, (std::vector<std::string>{"some.txt"}));
  EXPECT_EQ(old.path, folder_ / "i");
  const Imatrix now = open(modern(kTensors));
  EXPECT_EQ(now.values.at("a.weight"), (std::vector<float>{2, 0.5f, 0}));
  EXPECT_EQ(now.values.at("b.weight"), (std::vector<float>{1}));  // never used: weight 1
  EXPECT_EQ(now.chunks, 7);
  EXPECT_EQ(now.datasets, (std::vector<std::string>{"some.txt"}));
}

TEST_F(ImatrixFile, CutFile_isRefusedWhereverItEnds) {
  const std::string bytes = legacy();
  const std::size_t optional = bytes.size() - 4 - 4 - 8;  // the number of chunks and the text's name are optional
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    if (n == optional || n == optional + 4) {
      EXPECT_NO_THROW(open(bytes.substr(0, n))) << n;
    } else {
      EXPECT_THROW(open(bytes.substr(0, n)), ModelError) << n;
    }
  }
}

TEST_F(ImatrixFile, WhatIsMissingOrNoNumber_isNamed) {
  EXPECT_THROW(Imatrix::open(folder_ / "none"), ModelError);
  EXPECT_THROW(Imatrix::open(folder_.path().string()), ModelError);
  EXPECT_THROW(open(modern(kTensors, false)), ModelError);
  EXPECT_THROW(open(modern({})), ModelError);
  EXPECT_THROW(open(modern({kTensors[0]})), ModelError);
  Table table = kTensors;
  table[0].second[1] = NAN;
  EXPECT_THROW(open(modern(table)), ModelError);
}

}  // namespace
}  // namespace yamata::quantize
