// Compares whole files with those of llama-quantize.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

#include "node/error.hpp"
#include "src/quantize/quantize.hpp"
#include "tests/gguf/support.hpp"
#include "tests/paths.hpp"

namespace yamata::quantize {
namespace {

const std::string kModel = (std::filesystem::path(test::source_path()) / "models" / "tales-target-q8_0.gguf").string();

std::string written(const gguf::File& file, const Request& request, int threads = 2) {
  ThreadPool pool(std::vector<int>(static_cast<std::size_t>(threads), -1));
  std::string bytes;
  write_quantized(
      file, make_plan(file, request), pool,
      [&](std::span<const std::byte> part) { bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); }, [](double) {});
  return bytes;
}

/// FNV-1a.
std::uint64_t hash(const std::string& bytes) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : bytes) h = (h ^ static_cast<std::uint8_t>(c)) * 0x100000001b3u;
  return h;
}

Request request(const std::string& kind) {
  Request r;
  r.mix.kind = find_kind(kind).value();
  r.allow_requantize = true;
  return r;
}

/// An importance for every column of every matrix of the layers, derived from the tensor's name.
Imatrix made_up(const gguf::File& file) {
  Imatrix imatrix{"importance.dat", {}, {"tales.txt"}, 3};
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (!tensor.name.starts_with("blk.") || tensor.shape.size() != 2) continue;
    int seed = 0;
    for (const char c : tensor.name) seed += c;
    for (int i = 0; i < tensor.cols(); ++i) imatrix.values[tensor.name].push_back(static_cast<float>((i * 37 + seed) % 101 + 1) * 0.25f);
  }
  return imatrix;
}

struct Golden {
  const char* kind;
  std::uint64_t plain, weighted;  ///< 0: needs an importance matrix; omitted types are equal to their _M variant
};
// Hashes of the files that llama_model_quantize of llama.cpp b11739 writes for kModel with allow_requantize, without an importance matrix
// and with made_up's under that name.
constexpr Golden kGolden[] = {
    {"F32", 0x95cf926cafaa647f, 0x8e3a6ce31ab3502b},
    {"F16", 0x1402b2048afd1b02, 0x1e31c0a0e68e7ed0},
    {"BF16", 0xd5d95f37085e9aba, 0xe40153ec46706520},
    {"Q4_0", 0x772d78370ec5b993, 0xa9db675d0c510f37},
    {"Q4_1", 0x3bda4f5f2a41d8e8, 0x57b60a879a671cb3},
    {"Q5_0", 0x1b04740b2e76aa6f, 0x2841762cba6c0863},
    {"Q5_1", 0x5d03aaf1f16eefee, 0x9a07d1d3a6775533},
    {"Q8_0", 0xf508d6d1f2b9d7da, 0xd6f063c4fbb79ed4},
    {"Q2_K", 0xe8c2f7215fb0fb30, 0x36e9024b5eea947a},
    {"Q3_K_S", 0xbf9e501469659bd3, 0},
    {"Q3_K_M", 0xa30a3c4b19af8eae, 0xc99f2a391c7f4faa},
    {"Q3_K_L", 0xd0a43a77eb2279db, 0},
    {"Q4_K_S", 0x80d980ab13122da1, 0},
    {"Q4_K_M", 0x32a592d2ae490e61, 0x291c05a72316e14c},
    {"Q5_K_S", 0xd445280b66adc471, 0},
    {"Q5_K_M", 0xe77b9a4372c71125, 0x1ed52c35b673d594},
    {"Q6_K", 0x68b5e284e3cdff7c, 0x9b720c5393b8cfbd},
    {"IQ4_NL", 0x56149eeb7a34180d, 0x41e95a20a2f2ee93},
    {"IQ4_XS", 0x68706f7fa2578441, 0x6097e7a20d7bdda2},
    {"Q2_K_S", 0, 0xc95a1a4446136539},
};

TEST(QuantizedFile, EveryKind_isTheFileOfLlamaQuantize) {
  const gguf::File file = gguf::File::open(kModel);
  const Imatrix imatrix = made_up(file);
  for (const Golden& golden : kGolden) {
    Request r = request(golden.kind);
    if (golden.plain != 0) {
      EXPECT_EQ(hash(written(file, r)), golden.plain) << golden.kind;
    }
    r.imatrix = &imatrix;
    if (golden.weighted != 0) {
      EXPECT_EQ(hash(written(file, r)), golden.weighted) << golden.kind << " with importance";
    }
  }
}

TEST(QuantizedFile, Choices_areThoseOfLlamaQuantize) {
  const gguf::File file = gguf::File::open(kModel);
  Request pure = request("Q4_K"), types = request("Q4_K"), leave = request("Q4_K");
  pure.mix.pure = true;
  types.mix.output_type = find_tensor_type("q5_0");
  types.mix.embedding_type = find_tensor_type("Q4_1");
  leave.mix.leave_output = true;
  EXPECT_EQ(hash(written(file, pure)), 0x2970e21423380da1u);
  EXPECT_EQ(hash(written(file, types)), 0xae06a40dfd326092u);
  EXPECT_EQ(hash(written(file, leave)), 0x4ef7e31ce114db37u);
}

TEST(QuantizedFile, Bytes_areTheSameWithAnyNumberOfThreads) {
  const gguf::File file = gguf::File::open(kModel);
  const std::string one = written(file, request("Q3_K_M"), 1);
  for (const int threads : {2, 3, 7}) EXPECT_EQ(written(file, request("Q3_K_M"), threads), one) << threads;
}

TEST(QuantizedFile, Progress_growsToOneAndItsExceptionEndsTheWork) {
  const gguf::File file = gguf::File::open(kModel);
  ThreadPool pool({-1, -1});
  const Plan plan = make_plan(file, request("Q4_0"));
  double last = 0;
  write_quantized(
      file, plan, pool, [](std::span<const std::byte>) {},
      [&](double share) {
        EXPECT_GT(share, last);
        last = share;
      });
  EXPECT_EQ(last, 1.0);
  struct Stop {};
  std::size_t bytes = 0;
  EXPECT_THROW(write_quantized(
                   file, plan, pool, [&](std::span<const std::byte> part) { bytes += part.size(); }, [](double) { throw Stop{}; }),
               Stop);
  EXPECT_LT(bytes, plan.bytes_after / 2);
}

std::string complaint(const gguf::File& file, const Request& r) {
  try {
    written(file, r);
  } catch (const ModelError& error) {
    return error.what();
  }
  return "";
}

TEST(QuantizedFile, QuantizedSource_needsLeaveAndCopiesNeedNone) {
  const gguf::File file = gguf::File::open(kModel);
  Request r = request("Q4_0");
  r.allow_requantize = false;
  EXPECT_NE(complaint(file, r).find("--allow-requantize"), std::string::npos);
  r.mix.kind = Kind::Q8_0;
  EXPECT_EQ(complaint(file, r), "");
}

TEST(QuantizedFile, ImportanceMatrix_mustFitAndBeThereWhereItIsNeeded) {
  const gguf::File file = gguf::File::open(kModel);
  EXPECT_NE(complaint(file, request("Q2_K_S")).find("--imatrix"), std::string::npos);
  Imatrix imatrix = made_up(file);
  Request r = request("Q2_K_S");
  r.imatrix = &imatrix;
  imatrix.values["blk.1.ffn_up.weight"].pop_back();
  EXPECT_NE(complaint(file, r).find("blk.1.ffn_up.weight"), std::string::npos);
  imatrix.values.erase("blk.1.ffn_up.weight");
  EXPECT_NE(complaint(file, r).find("blk.1.ffn_up.weight"), std::string::npos);
  r.mix.kind = Kind::Q4_K_M;
  EXPECT_EQ(complaint(file, r), "");
  const Plan plan = make_plan(file, r);
  ASSERT_EQ(plan.notes.size(), 1u);
  EXPECT_NE(plan.notes[0].find("blk.1.ffn_up.weight"), std::string::npos);
}

/// The file with zeros as data.
std::string zeroed(std::string bytes) {
  const gguf::File file = gguf::File::parse(gguf_test::as_span(bytes), "source");
  const auto begin = static_cast<std::size_t>(file.tensors()[0].data - gguf_test::as_span(bytes).data());
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.end(), '\0');
  return bytes;
}

TEST(QuantizedFile, Alignment_isThatOfTheSource) {
  using namespace gguf_test;
  Writer writer = sentencepiece_model();
  writer.alignment(128).scalar<std::uint32_t>("general.alignment", kU32, 128).tensor("b.weight", {32, 1}, 0, 128);
  writer.tensor("a.weight", {32, 3}, 0, 384);
  const std::string bytes = zeroed(writer.finish());
  const std::string result = written(gguf::File::parse(as_span(bytes), "source"), request("Q5_1"));
  const gguf::File file = gguf::File::parse(as_span(result), "result");
  EXPECT_EQ(file.alignment(), 128u);
  EXPECT_EQ(file.tensor("a.weight").type, TensorType::Q5_1);
  EXPECT_EQ(file.tensor("b.weight").type, TensorType::F32);  // a matrix of one row is a vector
  EXPECT_EQ(file.tensors()[0].name, "a.weight");
  EXPECT_EQ(result.size() % 128, 0u);
}

TEST(QuantizedFile, ValuesThatAreNoNumbers_areNamed) {
  using namespace gguf_test;
  std::string bytes = zeroed(sentencepiece_model().tensor("bad.weight", {32, 2}, 0, 256).finish());
  const gguf::File file = gguf::File::parse(as_span(bytes), "source");
  EXPECT_EQ(complaint(file, request("Q8_0")), "");
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::memcpy(bytes.data() + bytes.size() - 8, &value, sizeof value);
    for (const char* kind : {"F16", "BF16", "Q8_0", "Q5_1"})
      EXPECT_NE(complaint(file, request(kind)).find("bad.weight"), std::string::npos) << kind << value;
  }
}

}  // namespace
}  // namespace yamata::quantize
