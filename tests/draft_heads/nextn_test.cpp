// MTP layers (nextn): the model itself does not change, results do not depend on how rows are divided into runs, and files that lack
// something are refused by name.
#include <gtest/gtest.h>

#include "node/error.hpp"
#include "src/model/transformer_stage.hpp"
#include "tests/draft_heads/text_run.hpp"
#include "tests/families/changed_gguf.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::draft_heads {
namespace {

using families_test::nextn_variant_names;
using families_test::tiny_prompt;
using families_test::write_changed;
using families_test::write_tiny_model;

class NextnTest : public ::testing::TestWithParam<std::string>, protected TextRun {
 protected:
  NextnTest() : TextRun({-1}, tiny_prompt(), GetParam().starts_with("qwen4exp") ? 3 * 192 : 192, 512) {  // of three streams
    path_ = folder_ / "model.gguf";
    write_tiny_model(GetParam(), TensorType::F16, path_);
    target_.emplace(ModelFile::open(path_));
  }

  std::unique_ptr<StageModel> make(bool packed) { return load(DraftHeadsFile::in_target(target_->file), *target_, packed); }
  /// The error with which the layer of a file is refused; empty: it is accepted.
  static std::string fault_of(const std::string& path) {
    try {
      const ModelFile target = ModelFile::open(path);
      DraftHeadsFile::in_target(target.file).needs(target, {}, TensorType::Q8_0);
    } catch (const ModelError& e) {
      return e.what();
    }
    return "";
  }
  std::string changed(const std::function<bool(gguf::Tensor& tensor)>& change) {
    const std::string path = folder_ / "changed.gguf";
    write_changed(target_->file, path, change);
    return path;
  }

  test::TemporaryFolder folder_;
  std::string path_;
  std::optional<ModelFile> target_;
};

TEST_P(NextnTest, Model_isThatWithoutTheLayer) {
  const std::string path = folder_ / "without.gguf";
  write_tiny_model(GetParam().substr(0, GetParam().find('-')) + "-without", TensorType::F16, path);
  const ModelFile without = ModelFile::open(path);
  EXPECT_GT(target_->h.nextn_layers, 0);
  EXPECT_EQ(without.h.nextn_layers, 0);
  std::vector<std::vector<float>> logits;
  for (const ModelFile* model : {static_cast<const ModelFile*>(&*target_), &without}) {
    TransformerStage stage(model->file, model->h, {0, model->h.layers}, {64, 1, CacheType::kF16}, unit_);
    std::vector<Placement> placements;
    for (std::size_t i = 0; i < tokens_.size(); ++i) placements.push_back({static_cast<std::int32_t>(i), -1, {0, 1}});
    logits.push_back(run(stage, tokens_, placements, {}));
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST_P(NextnTest, Text_givesTheSameBitsHoweverItIsCut_packedOrNot) {
  const auto whole = make(true), pieces = make(false);
  expect_same_bits_however_cut(*whole, *pieces);
}

TEST_P(NextnTest, Guesses_areComputedFromWhatTheirParentsLeft_onEveryBranch) {
  const auto chain = make(true), tree = make(true);
  expect_branches_as_alone(*chain, *tree, 300, 310, 311, 312);
}

TEST_P(NextnTest, TwoTextsAtATime_haveTheRowsOfEachAlone) {
  const auto alone = make(true), both = make(true);
  expect_two_texts_as_alone(*alone, *both);
}

TEST_P(NextnTest, TensorsThatDoNotFit_areNamed) {
  const std::string layer = "blk." + std::to_string(target_->h.layers) + ".";
  EXPECT_EQ(fault_of(changed([](auto&) { return true; })), "");
  std::vector<std::string> names;
  for (const gguf::Tensor& tensor : target_->file.tensors()) {
    if (tensor.name.starts_with(layer) && !tensor.name.starts_with(layer + "indexer.")) names.push_back(tensor.name);
  }
  ASSERT_GE(names.size(), 15u);
  for (const std::string& name : names) {
    const bool has_another = name.find("shared_head") != std::string::npos || name.find("embed_tokens") != std::string::npos;
    const bool optional = has_another || name.ends_with(".bias");
    const std::string missing = fault_of(changed([&](const auto& tensor) { return tensor.name != name; }));
    // newer files have this tensor instead
    const std::string named = name == layer + "attn_kv_b.weight" ? layer + "attn_k_b.weight" : name;
    EXPECT_EQ(missing.find(named) != std::string::npos, !optional) << name << ": " << missing;
    const std::string shorter = fault_of(changed([&](gguf::Tensor& tensor) {
      if (tensor.name == name) tensor.shape.back() -= 1;
      return true;
    }));
    EXPECT_NE(shorter.find(name), std::string::npos) << shorter;
    for (const std::string& fault : {missing, shorter}) {
      EXPECT_LT(fault.size(), 400u);
      EXPECT_EQ(fault.find('\n'), std::string::npos) << fault;
    }
  }
}

TEST_P(NextnTest, TensorThatNothingReads_isNamed) {
  const std::string block = "blk." + std::to_string(target_->h.layers) + ".", layer = block + "nextn.";
  const std::string optional = target_->h.layer.streams > 0 ? block + "indexer.q_norm.weight" : layer + "shared_head_norm.weight";
  const std::string fault = fault_of(changed([&](gguf::Tensor& tensor) {
    if (tensor.name == optional) tensor.name = layer + "other_norm.weight";
    return true;
  }));
  EXPECT_NE(fault.find("tensor " + layer + "other_norm.weight is not supported"), std::string::npos) << fault;
}

TEST_P(NextnTest, ModelWithoutTheLayer_isRefused) {
  const std::string none = fault_of(changed([](const auto& tensor) { return tensor.name.find(".nextn.") == std::string::npos; }));
  EXPECT_NE(none.find("leave --mtp out"), std::string::npos) << none;
  const DraftHeadsFile draft_heads = DraftHeadsFile::open(path_, std::nullopt);
  EXPECT_EQ(draft_heads.kind(), Kind::kNextn);
  const std::string other = folder_ / "other.gguf";
  write_tiny_model("llama", TensorType::F16, other);
  const ModelFile target = ModelFile::open(other);
  try {
    draft_heads.needs(target, {}, TensorType::Q8_0);
    ADD_FAILURE() << "not refused";
  } catch (const ModelError& e) {
    EXPECT_NE(std::string_view(e.what()).find("another model's"), std::string_view::npos) << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, NextnTest, ::testing::ValuesIn(nextn_variant_names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace yamata::draft_heads
