// Written files are read back unchanged.
#include "src/gguf/writer.hpp"

#include <gtest/gtest.h>

#include "tests/gguf/support.hpp"

namespace yamata::gguf {
namespace {

using gguf_test::as_span;

/// Copies a file pair by pair and tensor by tensor.
std::string copy(const File& file) {
  std::string bytes;
  gguf::Writer writer([&](std::span<const std::byte> part) { bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); },
                      file.alignment());
  for (const RawPair& pair : file.raw_metadata()) writer.set_raw(pair.key, pair.value);
  for (const Tensor& tensor : file.tensors()) writer.add_tensor(tensor.name, tensor.type, tensor.shape);
  writer.begin();
  for (const Tensor& tensor : file.tensors()) {
    const auto data = std::span(tensor.data, tensor.bytes);
    writer.data(data.first(tensor.bytes / 2));
    writer.data(data.subspan(tensor.bytes / 2));
  }
  return bytes;
}

TEST(Writer, Copy_readsAsTheSameFile) {
  for (const std::string& sample : gguf_test::samples()) {
    const File file = File::parse(as_span(sample), "sample");
    const std::string bytes = copy(file);
    const File again = File::parse(as_span(bytes), "copy");
    EXPECT_EQ(again.version(), 3u);
    EXPECT_EQ(again.metadata(), file.metadata());
    ASSERT_EQ(again.tensors().size(), file.tensors().size());
    for (std::size_t i = 0; i < file.tensors().size(); ++i) {
      const Tensor &one = file.tensors()[i], &other = again.tensors()[i];
      EXPECT_EQ(other.name, one.name);
      EXPECT_EQ(other.type, one.type);
      EXPECT_EQ(other.shape, one.shape);
      EXPECT_TRUE(std::equal(one.data, one.data + one.bytes, other.data, other.data + other.bytes)) << one.name;
    }
    EXPECT_EQ(copy(again), bytes);
    EXPECT_EQ(bytes.size() % file.alignment(), 0u);
  }
}

TEST(Writer, KeySetAgain_goesToTheEnd) {
  std::string bytes;
  gguf::Writer writer([&](std::span<const std::byte> part) { bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); });
  writer.set_u32("a", 1);
  writer.set_string("b", "two");
  writer.set_u32("c", 3);
  writer.set_u32("a", 4);
  writer.remove("c");
  writer.remove("none");
  const std::int64_t shape[] = {32, 3, 1, 1};
  writer.add_tensor("t", TensorType::Q8_0, shape);
  EXPECT_EQ(writer.data_bytes(), 3u * 34);
  writer.begin();
  writer.data(std::vector<std::byte>(3 * 34));
  const File file = File::parse(as_span(bytes), "written");
  ASSERT_EQ(file.raw_metadata().size(), 2u);
  EXPECT_EQ(file.raw_metadata()[0].key, "b");
  EXPECT_EQ(file.raw_metadata()[1].key, "a");
  EXPECT_EQ(file.integer("a"), 4);
  EXPECT_EQ(file.string("b"), "two");
  EXPECT_EQ(file.tensor("t").shape, (std::vector<std::int64_t>{32, 3}));
}

}  // namespace
}  // namespace yamata::gguf
