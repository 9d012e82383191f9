// Families whose layers differ: which of them rotate, have windows or experts, and scale queries.
#include <gtest/gtest.h>

#include <cmath>

#include "node/error.hpp"
#include "src/model/hyperparameters.hpp"
#include "tests/model/support.hpp"

namespace yamata {
namespace {

Hyperparameters read(ModelFile file) {
  const gguf::File read = file.read();
  return Hyperparameters::read(read);
}

std::string refusal(ModelFile file) {
  try {
    read(file);
  } catch (const ModelError& error) {
    return error.what();
  }
  return "it was read";
}

/// Each key is missed if it is not there.
void expect_required(const ModelFile& complete, std::initializer_list<const char*> keys) {
  EXPECT_EQ(refusal(complete), "it was read");
  for (const char* key : keys) {
    ModelFile file = complete;
    ASSERT_EQ(file.metadata.erase(key), 1u) << key;
    EXPECT_EQ(refusal(file), std::string("test.gguf: ") + key + " is missing; the file is not complete");
  }
}

ModelFile with_experts(const std::string& family) {
  ModelFile file = small_model(family);
  file.set(family + ".block_count", std::uint64_t{8});
  file.set(family + ".expert_count", std::uint64_t{8});
  file.set(family + ".expert_used_count", std::uint64_t{2});
  file.set(family + ".expert_feed_forward_length", std::uint64_t{32});
  return file;
}

/// A letter per layer: the first for one that has it, the second for others.
template <class Has>
std::string layers(const Hyperparameters& h, const char* letters, Has has) {
  std::string text;
  for (std::int64_t layer = 0; layer < h.layers; ++layer) text += letters[has(h.layer_at(layer)) ? 0 : 1];
  return text;
}

std::string rotating(const Hyperparameters& h) {
  return layers(h, "R-", [](const LayerSpec& spec) { return spec.rope != RopeKind::kNone; });
}
std::string windows(const Hyperparameters& h) {
  return layers(h, "W-", [](const LayerSpec& spec) { return spec.window > 0; });
}
std::string experts(const Hyperparameters& h) {
  return layers(h, "E-", [](const LayerSpec& spec) { return spec.experts > 0; });
}
std::string scaling(const Hyperparameters& h) {
  return layers(h, "S-", [](const LayerSpec& spec) { return spec.query_scale > 0; });
}

TEST(LayerKinds, SmolLm3_hasNoRopeInEveryFourthLayer) {
  ModelFile file = small_model("smollm3");
  file.set("smollm3.block_count", std::uint64_t{9});
  EXPECT_EQ(rotating(read(file)), "RRR-RRR-R");
}

TEST(LayerKinds, Exaone4_rotatesWhereWindowsAre_orEverywhere) {
  ModelFile file = small_model("exaone4");
  file.set("exaone4.block_count", std::uint64_t{8});
  EXPECT_EQ(rotating(read(file)), "RRRRRRRR");
  EXPECT_EQ(windows(read(file)), "--------");
  file.set("exaone4.attention.sliding_window", std::uint64_t{512});
  EXPECT_EQ(rotating(read(file)), "RRR-RRR-");
  EXPECT_EQ(windows(read(file)), "WWW-WWW-");
  file.metadata["exaone4.attention.sliding_window_pattern"] = std::vector<bool>{true, false, true, true, true, true, false, true};
  EXPECT_EQ(rotating(read(file)), "R-RRRR-R");
  file.metadata.erase("exaone4.attention.sliding_window_pattern");
  file.metadata.erase("exaone4.attention.sliding_window");
  file.set("exaone4.block_count", std::uint64_t{64});
  EXPECT_EQ(read(file).layer_at(62).window, 4096) << "the large model's default";
  EXPECT_EQ(read(file).layer_at(63).window, 0);
}

TEST(LayerKinds, Llama4_hasChunksExceptInEveryFourthLayer_whichScalesQueries) {
  ModelFile file = with_experts("llama4");
  file.set("llama4.interleave_moe_layer_step", std::uint64_t{2});
  expect_required(file, {"llama4.expert_count", "llama4.expert_feed_forward_length", "llama4.interleave_moe_layer_step"});
  const Hyperparameters h = read(file);
  EXPECT_EQ(experts(h), "-E-E-E-E");
  EXPECT_EQ(windows(h), "WWW-WWW-");
  EXPECT_EQ(rotating(h), "RRR-RRR-");
  EXPECT_EQ(scaling(h), "---S---S");
  EXPECT_TRUE(h.chunked);
  EXPECT_EQ(h.layer_at(0).window, 8192);
  EXPECT_EQ(h.layer_at(0).qk_norm, QkNorm::kUnit);
  EXPECT_EQ(h.layer_at(3).qk_norm, QkNorm::kNone);
  EXPECT_EQ(h.layer.shared_ffn, 32);
  EXPECT_EQ(h.query_scale_at(8190), 1);
  EXPECT_FLOAT_EQ(h.query_scale_at(8191), 1 + 0.1f * std::log(2.0f));
  file.set("llama4.attention.sliding_window", std::uint64_t{0});
  EXPECT_EQ(windows(read(file)), "--------");
  EXPECT_EQ(rotating(read(file)), "RRRRRRRR");
  EXPECT_EQ(scaling(read(file)), "--------");
  file.set("llama4.expert_count", std::uint64_t{128});
  EXPECT_EQ(read(file).layer.qk_norm, QkNorm::kNone) << "only the model with 128 experts has no norms";
}

TEST(LayerKinds, Ernie4_5Moe_hasExpertsAfterTheFirstLayers_atAnInterval) {
  ModelFile file = with_experts("ernie4_5-moe");
  file.set("ernie4_5-moe.interleave_moe_layer_step", std::uint64_t{2});
  file.set("ernie4_5-moe.leading_dense_block_count", std::uint64_t{3});
  expect_required(file, {"ernie4_5-moe.expert_count", "ernie4_5-moe.expert_feed_forward_length", "ernie4_5-moe.interleave_moe_layer_step"});
  EXPECT_EQ(experts(read(file)), "---E-E-E");
  file.set("ernie4_5-moe.interleave_moe_layer_step", std::uint64_t{1});
  EXPECT_EQ(experts(read(file)), "---EEEEE");
}

TEST(LayerKinds, NormsAfterRope_areOfHeadsThatAreNotPadded) {
  ModelFile file = small_model("hunyuan-dense");
  EXPECT_TRUE(read(file).layer.qk_norm_last);
  file.set("hunyuan-dense.attention.key_length", std::uint64_t{24});
  file.set("hunyuan-dense.attention.value_length", std::uint64_t{24});
  EXPECT_NE(refusal(file).find("norms after RoPE of heads of 24 elements"), std::string::npos) << refusal(file);
}

TEST(LayerKinds, HunyuanMoe_hasASharedExpertAsWideAsDenseLayers) {
  ModelFile file = with_experts("hunyuan-moe");
  expect_required(file, {"hunyuan-moe.expert_count", "hunyuan-moe.expert_feed_forward_length"});
  EXPECT_EQ(read(file).layer.shared_ffn, 96);
  file.set("hunyuan-moe.expert_shared_feed_forward_length", std::uint64_t{64});
  EXPECT_EQ(read(file).layer.shared_ffn, 64);
}

TEST(LayerKinds, MinimaxM2_hasABiasForEveryChoice) {
  ModelFile file = with_experts("minimax-m2");
  file.tensors["output.weight"] = {64, 10};
  EXPECT_NE(refusal(file).find("blk.0.exp_probs_b.bias"), std::string::npos) << refusal(file);
  for (int layer = 0; layer < 8; ++layer) file.tensors["blk." + std::to_string(layer) + ".exp_probs_b.bias"] = {8};
  expect_required(file, {"minimax-m2.expert_count", "minimax-m2.expert_feed_forward_length"});
  file.tensors.erase("output.weight");
  EXPECT_NE(refusal(file).find("output.weight"), std::string::npos) << refusal(file);
}

TEST(LayerKinds, ModelsForImages_haveSectionsOfRope) {
  ModelFile file = small_model("qwen2vl");
  file.metadata["qwen2vl.rope.dimension_sections"] = std::vector<std::int64_t>{2, 3, 3, 0};
  expect_required(file, {"qwen2vl.rope.dimension_sections"});
}

TEST(LayerKinds, Mistral3_scalesQueriesByLengthsOfTheFirstContext) {
  ModelFile file = small_model("mistral3");
  EXPECT_EQ(scaling(read(file)), "--");
  file.set("mistral3.attention.temperature_scale", 0.1);
  file.set("mistral3.rope.scaling.type", "yarn");
  file.set("mistral3.rope.scaling.factor", 16.0);
  file.set("mistral3.rope.scaling.original_context_length", std::uint64_t{100});
  EXPECT_EQ(scaling(read(file)), "SS");
  EXPECT_EQ(read(file).query_scale_at(99), 1);
  EXPECT_FLOAT_EQ(read(file).query_scale_at(100), 1 + 0.1f * std::log(2.0f));
  EXPECT_FLOAT_EQ(read(file).query_scale_at(250), 1 + 0.1f * std::log(3.0f));
  EXPECT_EQ(read(file).rope.attention_factor, 1);
  file.set("mistral3.rope.scaling.yarn_log_multiplier", 1.0);
  EXPECT_FLOAT_EQ(read(file).rope.attention_factor, 1 / (1 + 0.1f * std::log(16.0f)));
  file.set("mistral3.attention.temperature_length", std::uint64_t{50});
  EXPECT_FLOAT_EQ(read(file).query_scale_at(99), 1 + 0.1f * std::log(2.0f));
}

}  // namespace
}  // namespace yamata
