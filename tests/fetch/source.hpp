#pragma once
// Model files as rank 0 has them, for tests of copies of them.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "node/checksum.hpp"
#include "src/fetch/fetched_model.hpp"
#include "tests/gguf/support.hpp"

namespace yamata::test {

/// A model of `parts` files with two tensors each, a small one and one of about 2.5 MiB.
class Source {
 public:
  explicit Source(int parts = 1) {
    shape_ = {.fingerprint = 0x1234, .name = "source.gguf", .parts = {}};
    for (int part = 0; part < parts; ++part) {
      gguf_test::Writer writer;
      writer.scalar("split.no", gguf_test::kU16, static_cast<std::uint16_t>(part));
      const std::string name = "part" + std::to_string(part);
      constexpr std::uint64_t kFew = 40, kMany = 650'000;
      writer.tensor(name + ".few", {kFew}, 0, 4 * kFew).tensor(name + ".many", {kMany}, 0, 4 * kMany);
      files_.push_back(writer.finish());
    }
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const auto bytes = gguf_test::as_span(files_[i]);
      const std::size_t header = gguf::File::parse(bytes, "source").parts().front().header_bytes;
      shape_.parts.push_back(
          {"part-" + std::to_string(i + 1) + ".gguf", bytes.size(), {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header)}});
    }
  }
  const fetch::ModelShape& shape() const { return shape_; }
  std::span<const std::byte> bytes(std::size_t part) const { return gguf_test::as_span(files_[part]); }
  std::span<const std::byte> chunk(std::uint64_t number) const {
    const fetch::ChunkPlace place = fetch::ChunkMap(shape_).place(number);
    return bytes(place.part).subspan(place.begin, place.bytes);
  }
  /// Does what a rank does; returns the number of chunks that were fetched.
  int fetch_all(fetch::FetchedModel& copy) const {
    EXPECT_TRUE(copy.try_lock());
    std::vector<std::uint64_t> absent;
    for (std::uint64_t chunk = 0; chunk < copy.map().count(); ++chunk) {
      if (!copy.verify(chunk)) absent.push_back(chunk);
    }
    copy.allocate(absent);
    for (const std::uint64_t number : absent) copy.put(number, chunk(number), checksum(chunk(number)));
    copy.unlock();
    return static_cast<int>(absent.size());
  }
  /// Whether every tensor is present with the right bytes.
  void expect_equal(const std::shared_ptr<fetch::FetchedModel>& copy) const {
    const gguf::File file = fetch::FetchedModel::open(copy, "copy");
    std::vector<gguf::Tensor> expected;
    for (std::size_t part = 0; part < files_.size(); ++part) {
      const gguf::File whole = gguf::File::parse(bytes(part), "source");
      expected.insert(expected.end(), whole.tensors().begin(), whole.tensors().end());
    }
    ASSERT_EQ(file.tensors().size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::span<const std::byte> got{file.tensors()[i].data, file.tensors()[i].bytes};
      file.require_present(file.tensors()[i], got);
      EXPECT_TRUE(std::ranges::equal(got, std::span{expected[i].data, expected[i].bytes})) << expected[i].name;
    }
  }

 private:
  fetch::ModelShape shape_;
  std::vector<std::string> files_;
};

}  // namespace yamata::test
