// Layers that predict a further token (MTP): the model stays as it is without them, rows do not depend on how they are cut into runs, and
// files that lack something are refused by name.
#include <gtest/gtest.h>

#include <map>

#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "src/heads/heads_file.hpp"
#include "src/model/transformer_stage.hpp"
#include "tests/families/changed_gguf.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/heads/stage_run.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::heads {
namespace {

using families_test::nextn_variant_names;
using families_test::tiny_prompt;
using families_test::write_changed;
using families_test::write_tiny_model;

constexpr std::size_t kDim = 192, kVocabulary = 512;

class NextnTest : public ::testing::TestWithParam<std::string> {
 protected:
  NextnTest() : unit_({-1}, cpu::choose_isa()) {
    path_ = folder_ / "model.gguf";
    write_tiny_model(GetParam(), TensorType::F16, path_);
    target_.emplace(ModelFile::open(path_));
    for (std::size_t i = 0; i < tokens_.size() * kDim; ++i)
      features_.push_back(static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 40);
  }

  std::unique_ptr<StageModel> make(bool packed) {
    auto model =
        HeadsFile::in_target(target_->file)
            .make_stage(*target_, {.cells = 64, .sequences = 8, .cache_types = CacheType::kF16, .pack = packed, .group = {}}, true, unit_);
    model->load(nullptr);
    finish(model->unit());
    return model;
  }
  /// Logits of all rows.
  static std::vector<float> run(StageModel& model, std::span<const std::int32_t> tokens, const std::vector<Placement>& placements,
                                std::span<const float> features) {
    std::vector<std::int32_t> rows;
    for (std::size_t i = 0; i < tokens.size(); ++i) rows.push_back(static_cast<std::int32_t>(i));
    const std::span<const float> logits = logits_of(model, tokens, placements, rows, features);
    return {logits.begin(), logits.end()};
  }
  /// The text up to `end`, from `begin` on.
  std::vector<float> read_text(StageModel& model, std::size_t begin, std::size_t end) {
    std::vector<Placement> placements;
    for (std::size_t i = begin; i < end; ++i) placements.push_back({static_cast<std::int32_t>(i) + 1, -1, {0, 1}});
    return run(model, std::span(tokens_).subspan(begin, end - begin), placements,
               std::span(features_).subspan(begin * kDim, (end - begin) * kDim));
  }
  static std::vector<float> row(const std::vector<float>& logits, std::size_t i) {
    const auto at = logits.begin() + static_cast<std::ptrdiff_t>(i * kVocabulary);
    return {at, at + kVocabulary};
  }
  /// The fault that the layer of a file is refused with; empty: it is not.
  static std::string fault_of(const std::string& path) {
    try {
      const ModelFile target = ModelFile::open(path);
      HeadsFile::in_target(target.file).needs(target, {}, true);
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
  CpuUnit unit_;
  const std::vector<std::int32_t> tokens_ = tiny_prompt();
  std::vector<float> features_;
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
  const std::vector<float> expected = read_text(*whole, 0, 9);
  std::vector<float> all;
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 5}, {5, 7}, {7, 9}}) {
    const std::vector<float> part = read_text(*pieces, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_EQ(all, expected);
}

TEST_P(NextnTest, Guesses_areComputedFromWhatTheirParentsLeft_onEveryBranch) {
  const auto chain = make(true), tree = make(true);
  std::map<std::vector<std::int32_t>, std::vector<float>> alone;
  for (const std::vector<std::int32_t>& path : {std::vector<std::int32_t>{300, 310}, {300, 311}, {312, 310}}) {
    chain->cells().clear();
    read_text(*chain, 0, 4);
    alone[{path[0]}] = run(*chain, {{path[0]}}, {{5, -1, {0, 1}}}, {});
    alone[path] = run(*chain, {{path[1]}}, {{6, -1, {0, 1}}}, {});
  }
  EXPECT_NE((alone[{300, 310}]), (alone[{312, 310}]));
  chain->cells().clear();
  read_text(*chain, 0, 4);
  EXPECT_NE(alone[{300}], run(*chain, {{300}}, {{5, -1, {0, 1}}}, std::vector<float>(kDim))) << "of nothing";
  read_text(*tree, 0, 4);
  tree->cells().copy(0, {1, 4}, {0, 5});
  const std::vector<float> first = run(*tree, {{300, 312}}, {{5, -1, {1, 3}}, {5, -1, {3, 4}}}, {});
  const std::vector<float> second = run(*tree, {{310, 311, 310}}, {{6, -1, {1, 2}}, {6, -1, {2, 3}}, {6, -1, {3, 4}}}, {});
  EXPECT_EQ(row(first, 0), alone[{300}]);
  EXPECT_EQ(row(first, 1), alone[{312}]);
  EXPECT_EQ(row(second, 0), (alone[{300, 310}]));
  EXPECT_EQ(row(second, 1), (alone[{300, 311}]));
  EXPECT_EQ(row(second, 2), (alone[{312, 310}]));
}

TEST_P(NextnTest, TensorsThatDoNotFit_areNamed) {
  const std::string layer = "blk." + std::to_string(target_->h.layers) + ".";
  EXPECT_EQ(fault_of(changed([](auto&) { return true; })), "");
  std::vector<std::string> names;
  for (const gguf::Tensor& tensor : target_->file.tensors()) {
    if (tensor.name.starts_with(layer)) names.push_back(tensor.name);
  }
  ASSERT_GT(names.size(), 15u);
  for (const std::string& name : names) {
    const bool has_another = name.find("shared_head") != std::string::npos || name.find("embed_tokens") != std::string::npos;
    const bool optional = has_another || name.ends_with(".bias");
    const std::string missing = fault_of(changed([&](const auto& tensor) { return tensor.name != name; }));
    const std::string named = name == layer + "attn_kv_b.weight" ? layer + "attn_k_b.weight" : name;  // what newer files have instead
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

TEST_P(NextnTest, ModelWithoutTheLayer_isRefused) {
  const std::string none = fault_of(changed([](const auto& tensor) { return tensor.name.find(".nextn.") == std::string::npos; }));
  EXPECT_NE(none.find("leave --mtp out"), std::string::npos) << none;
  const HeadsFile heads = HeadsFile::open(path_, std::nullopt);
  EXPECT_EQ(heads.kind(), Kind::kNextn);
  const std::string other = folder_ / "other.gguf";
  write_tiny_model("llama", TensorType::F16, other);
  const ModelFile target = ModelFile::open(other);
  try {
    heads.needs(target, {}, true);
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
}  // namespace yamata::heads
