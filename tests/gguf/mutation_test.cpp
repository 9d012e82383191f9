// Files with random damage are either read, and then everything in them can be used, or give an Error.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "node/error.hpp"
#include "src/gguf/gguf.hpp"
#include "src/model/hyperparameters.hpp"
#include "src/tokenizer/tokenizer.hpp"
#include "tests/gguf/support.hpp"
#include "tests/paths.hpp"

namespace yamata::gguf {
namespace {

using namespace gguf_test;
using Random = std::mt19937_64;

/// All values that are read go here, so that the compiler cannot remove reads.
volatile std::uint64_t sink;

/// Uses the file like the program. `tokenizes`: also builds the tokenizer.
void use(const File& file, bool tokenizes) {
  sink = file.fingerprint();
  for (const Tensor& tensor : file.tensors()) {
    ASSERT_GT(tensor.bytes, 0u);
    ASSERT_GT(tensor.rows() * tensor.cols(), 0);
    sink = static_cast<std::uint64_t>(tensor.data[0]) + static_cast<std::uint64_t>(tensor.data[tensor.bytes - 1]);
  }
  try {
    Hyperparameters::read(file);
  } catch (const ModelError&) {
    sink = 0;
  }
  if (!tokenizes) return;
  try {
    const auto tokenizer = Tokenizer::load(file);
    for (const TokenId id : tokenizer->encode("ab lo <s>\xff", true, true)) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, tokenizer->size());
      sink = tokenizer->piece(id).size();
    }
  } catch (const ModelError&) {
    sink = 0;
  }
}

/// Whether the file was read; any exception but ModelError fails the test.
bool read(const std::string& bytes, bool tokenizes) {
  try {
    // The memory ends where the file's bytes end, so that sanitizers detect reads beyond them.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const File file = File::parse(std::as_bytes(std::span(exact)), "test.gguf");
    use(file, tokenizes);
    return true;
  } catch (const ModelError& error) {
    EXPECT_EQ(std::string_view(error.what()).find_first_of("\r\n\x1b"), std::string_view::npos) << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not a ModelError: " << error.what();
  }
  return false;
}

/// Changes one to four places among the first `header` bytes: a bit, a byte, a number of 4 or 8 bytes, a removed or duplicated span.
std::string mutate(std::string bytes, std::size_t header, Random& random) {
  constexpr std::uint64_t kNumbers[] = {0,          1,          5,         31,         255,        1u << 31,
                                        UINT32_MAX, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (std::size_t n = 1 + below(4); n > 0; --n) {
    const std::size_t at = below(std::min(header, bytes.size()));
    const std::size_t room = bytes.size() - at;
    switch (below(5)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2: {
        const std::string number = Bytes().put(kNumbers[below(std::size(kNumbers))]).str();
        const std::size_t size = std::min<std::size_t>(room, below(2) == 0 ? 4 : 8);
        bytes.replace(at, size, number, 0, size);
        break;
      }
      case 3:
        bytes.erase(at, std::min(room - (room == bytes.size()), 1 + below(16)));
        break;
      default:
        bytes.insert(at, bytes.substr(at, 1 + below(16)));
    }
  }
  return bytes;
}

TEST(GgufMutation, small_files) {
  Random random(20240);
  std::size_t read_count = 0, total = 0;
  for (const std::string& sample : samples()) {
    for (int i = 0; i < 3000; ++i, ++total) read_count += read(mutate(sample, sample.size(), random), true);
  }
  // The test is only useful if some files are read and some refused.
  EXPECT_GT(read_count, total / 50);
  EXPECT_LT(read_count, total * 9 / 10);
}

TEST(GgufMutation, every_byte_of_a_small_file_set_to_extremes) {
  for (std::string sample : {sentencepiece_model().finish(), bpe_model().finish()}) {
    for (char& byte : sample) {
      const char original = byte;
      for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
        byte = static_cast<char>(value);
        read(sample, false);
      }
      byte = original;
    }
  }
}

TEST(GgufMutation, header_of_a_real_model) {
  const auto path = std::filesystem::path(test::source_path()) / "models" / "tales-draft-q8_0.gguf";
  std::ifstream in(path, std::ios::binary);
  const std::string model{std::istreambuf_iterator<char>(in), {}};
  const File file = File::parse(as_span(model), "model");
  std::size_t header = model.size();
  for (const Tensor& tensor : file.tensors()) header = std::min(header, static_cast<std::size_t>(tensor.data - as_span(model).data()));
  ASSERT_LT(header, model.size());
  Random random(7);
  for (int i = 0; i < 300; ++i) read(mutate(model, header, random), i % 10 == 0);
}

}  // namespace
}  // namespace yamata::gguf
