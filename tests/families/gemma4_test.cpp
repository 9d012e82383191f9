// What is refused of Gemma 4, by name, and what a file may have that is not read.
#include <gtest/gtest.h>

#include <functional>

#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "node/units/layered_unit.hpp"
#include "src/gguf/writer.hpp"
#include "src/model/model_file.hpp"
#include "src/model/passed_rows.hpp"
#include "src/model/transformer_stage.hpp"
#include "src/model/unread_tensors.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::families_test {
namespace {

class Gemma4Test : public ::testing::Test {
 protected:
  gguf::File shared() const {
    const std::string path = folder_ / "model.gguf";
    write_tiny_model("gemma4-shared", TensorType::F16, path);
    return gguf::File::open(path);
  }
  /// The file with a change of its metadata, and with a tensor `added`.
  std::string changed(const std::function<void(gguf::Writer&)>& change, const std::string& added = "") const {
    const gguf::File file = shared();
    std::string bytes;
    gguf::Writer writer([&](std::span<const std::byte> some) { bytes.append(reinterpret_cast<const char*>(some.data()), some.size()); });
    for (const gguf::RawPair& pair : file.raw_metadata()) writer.set_raw(pair.key, pair.value);
    change(writer);
    for (const gguf::Tensor& tensor : file.tensors()) writer.add_tensor(tensor.name, tensor.type, tensor.shape);
    if (!added.empty()) writer.add_tensor(added, TensorType::F32, std::vector<std::int64_t>{3});
    writer.begin();
    for (const gguf::Tensor& tensor : file.tensors()) writer.data({tensor.data, tensor.bytes});
    if (!added.empty()) writer.data(std::vector<std::byte>(12));
    return bytes;
  }
  static gguf::File parse(const std::string& bytes) { return gguf::File::parse(std::as_bytes(std::span(bytes)), "model.gguf"); }
  /// Why that file is refused; empty: it is not.
  std::string refusal(const std::function<void(gguf::Writer&)>& change, const std::string& added = "") const {
    const std::string bytes = changed(change, added);
    try {
      const gguf::File file = parse(bytes);
      require_all_read(file, Hyperparameters::read(file));
    } catch (const ModelError& error) {
      return error.what();
    }
    return "";
  }
  std::string with(const char* key, std::uint32_t value) const {
    return refusal([&](gguf::Writer& writer) { writer.set_u32(std::string("gemma4.") + key, value); });
  }

  const test::TemporaryFolder folder_;
};

void expect_part(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), std::string::npos) << text; }

TEST_F(Gemma4Test, WhatIsNotSupported_isRefusedByName) {
  EXPECT_EQ(with("context_length", 256), "");
  expect_part(with("attention.key_length_swa", 40), "key and value sizes differ");
  expect_part(refusal([](gguf::Writer& writer) {
                for (const char* key : {"key_length_swa", "value_length_swa"}) writer.set_u32(std::string("gemma4.attention.") + key, 80);
              }),
              "heads of 80 elements, no multiple of 32, are not supported");
  expect_part(with("rope.dimension_count_swa", 48), "48 of 32 elements of a head rotate");
  expect_part(with("attention.sliding_window_pattern", 2), "sliding_window_pattern is no list");
  expect_part(with("attention.shared_kv_layers", 6), "layer 1 shares the keys of an earlier layer without a window, and there is none");
  expect_part(with("nextn_predict_layers", 1), "gemma4.nextn_predict_layers is not supported");
  expect_part(with("block_count", 8), "has 7 values for 8 layers");
  expect_part(with("rope.scale_linear", 2), "gemma4.rope.scaling is not supported");
}

TEST_F(Gemma4Test, SuppressedTokens_areThoseOfTheVocabulary) {
  static constexpr std::int32_t kList[] = {9, 5, 3, 0, 7, -1, 512};  // an array of three I32
  const std::string bytes =
      changed([](gguf::Writer& writer) { writer.set_raw("tokenizer.ggml.suppress_tokens", std::as_bytes(std::span(kList))); });
  EXPECT_EQ(Hyperparameters::read(parse(bytes)).suppressed, std::vector<std::int32_t>{7});
}

TEST_F(Gemma4Test, MatricesForKeysThatAreShared_areHarmless) {
  const auto nothing = [](gguf::Writer&) {};
  for (const char* name : {"attn_k", "attn_v", "attn_k_norm"}) EXPECT_EQ(refusal(nothing, std::string("blk.6.") + name + ".weight"), "");
  expect_part(refusal(nothing, "blk.6.attn_k.bias"), "blk.6.attn_k.bias is not supported");
  expect_part(refusal(nothing, "blk.3.attn_k_b.weight"), "blk.3.attn_k_b.weight is not supported");
}

TEST_F(Gemma4Test, LayersThatShareKeys_areNotDividedAmongUnits) {
  const gguf::File file = shared();
  const Hyperparameters h = Hyperparameters::read(file);
  const auto core = [] { return std::make_unique<CpuUnit>(std::vector<int>{-1}, cpu::choose_isa()); };
  LayeredUnit unit(core(), core());
  try {
    TransformerStage(file, h, {0, h.layers}, ContextOptions{.cells = 64, .sequences = 1, .cache_types = CacheType::kF16, .first_layers = 2},
                     unit);
    ADD_FAILURE();
  } catch (const ModelError& error) {
    expect_part(error.what(), "cannot be divided among units by -ngl");
  }
}

/// Layers 2 and 3 are the last ones with and without a window that have keys of their own.
TEST_F(Gemma4Test, KeysAndEmbeddingsOfLaterLayers_passACut) {
  const gguf::File file = shared();
  const Hyperparameters h = Hyperparameters::read(file);
  constexpr std::int64_t kDim = 192, kInput = 64, kWindowed = 2 * 3 * 32, kFull = 2 * 2 * 64;
  const auto width = [&](std::int64_t cut) { return PassedRows(h, cut).width(); };
  EXPECT_EQ(width(1), kDim + 6 * kInput);
  EXPECT_EQ(width(3), kDim + 4 * kInput + kWindowed);
  EXPECT_EQ(width(5), kDim + 2 * kInput + kWindowed + kFull);
  EXPECT_EQ(width(6), kDim + kInput + kWindowed);
  EXPECT_EQ(width(7), kDim);
}

}  // namespace
}  // namespace yamata::families_test
