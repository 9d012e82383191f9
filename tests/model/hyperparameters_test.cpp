#include "src/model/hyperparameters.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "node/error.hpp"
#include "tests/model/support.hpp"

namespace yamata {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The error with which `file` is refused: a ModelError of one line that names the file.
std::string refusal(ModelFile file) {
  try {
    const gguf::File read = file.read();
    Hyperparameters::read(read);
  } catch (const ModelError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(message.rfind("test.gguf: ", 0), 0u) << message;
    EXPECT_NE(message.back(), '.') << message;
    return message;
  }
  return "it was read";
}

void expect_refusal(const ModelFile& file, const std::string& part) {
  const std::string message = refusal(file);
  EXPECT_NE(message.find(part), std::string::npos) << "'" << message << "' does not say '" << part << "'";
}

template <class T>
void expect_refusal(const std::string& key, T value, const std::string& part) {
  ModelFile file = small_llama();
  file.set(key, value);
  expect_refusal(file, part);
}

Hyperparameters read(ModelFile file) {
  const gguf::File read = file.read();
  return Hyperparameters::read(read);
}

TEST(Hyperparameters, CompleteModel_hasTheDefaultsOfAbsentKeys) {
  const Hyperparameters h = read(small_llama());
  EXPECT_STREQ(h.family->name, "llama");
  EXPECT_EQ(h.layer.rope, RopeKind::kInterleaved);
  EXPECT_EQ(h.layers, 2);
  EXPECT_EQ(h.dim, 64);
  EXPECT_EQ(h.ffn, 96);
  EXPECT_EQ(h.heads, 4);
  EXPECT_EQ(h.kv_heads, 4);
  EXPECT_EQ(h.head_dim, 16);
  EXPECT_EQ(h.rotary_dim, 16);
  EXPECT_EQ(h.vocabulary, 10);
  EXPECT_EQ(h.context, 512);
  EXPECT_EQ(h.epsilon, 1e-5f);
  EXPECT_EQ(h.layer.rope_base, 10000.0f);
  EXPECT_EQ(h.rope.kind, RopeScaling::Kind::kNone);
}

TEST(Hyperparameters, KeysGiven_areTaken) {
  ModelFile file = small_llama();
  file.set("llama.attention.head_count_kv", std::uint64_t{2});
  file.set("llama.attention.key_length", std::uint64_t{32});
  file.set("llama.attention.value_length", std::uint64_t{32});
  file.set("llama.rope.dimension_count", std::uint64_t{24});
  file.set("llama.attention.layer_norm_rms_epsilon", 1e-6);
  file.set("llama.rope.freq_base", 500000.0);
  file.set("llama.rope.scaling.type", "yarn");
  file.set("llama.rope.scaling.factor", 4.0);
  file.set("llama.rope.scaling.attn_factor", 0.5);
  file.set("llama.rope.scaling.original_context_length", std::uint64_t{128});
  file.set("llama.attention.sliding_window", std::uint64_t{0});
  file.set("llama.expert_count", std::uint64_t{0});
  const Hyperparameters h = read(file);
  EXPECT_EQ(h.kv_heads, 2);
  EXPECT_EQ(h.head_dim, 32);
  EXPECT_EQ(h.rotary_dim, 24);
  EXPECT_EQ(h.epsilon, 1e-6f);
  EXPECT_EQ(h.layer.rope_base, 500000.0f);
  EXPECT_EQ(h.rope.kind, RopeScaling::Kind::kYarn);
  EXPECT_EQ(h.rope.factor, 4.0f);
  EXPECT_EQ(h.rope.attention_factor, 0.5f);
  EXPECT_EQ(h.rope.original_context, 128);
}

TEST(Hyperparameters, ContextBeyondTraining_isToldWithTheScaling) {
  ModelFile file = small_llama();
  EXPECT_EQ(beyond_training(read(file), 512), "");
  EXPECT_EQ(beyond_training(read(file), 513),
            "a context of 513 tokens is more than the 512 that the model was trained for (its file has no RoPE scaling); text beyond them "
            "will be poor");
  file.set("llama.rope.scaling.type", "yarn");
  file.set("llama.rope.scaling.factor", 4.0);
  file.set("llama.rope.scaling.original_context_length", std::uint64_t{128});
  EXPECT_NE(beyond_training(read(file), 1000).find("(its file has RoPE scaling 'yarn' by 4 from 128 tokens)"), std::string::npos);
}

TEST(Hyperparameters, MissingKey_isNamed) {
  for (const char* key : {"general.architecture", "llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
                          "llama.attention.head_count", "llama.context_length", "llama.attention.layer_norm_rms_epsilon"}) {
    ModelFile file = small_llama();
    ASSERT_EQ(file.metadata.erase(key), 1u);
    expect_refusal(file, key);
  }
  ModelFile file = small_llama();
  file.tensors.clear();
  expect_refusal(file, "token_embd.weight");
}

TEST(Hyperparameters, UnknownArchitecture_isNamedWithThoseSupported) {
  expect_refusal("general.architecture", "mamba", "'mamba'");
  expect_refusal("general.architecture", "mamba", "supported: llama");
}

TEST(Hyperparameters, FeaturesThatAreLacking_areRefusedByName) {
  expect_refusal("llama.attention.value_length", std::uint64_t{32}, "key and value sizes differ");
  ModelFile file = small_llama();
  file.set("llama.rope.scaling.type", "spiral");
  expect_refusal(file, "'spiral'");
}

TEST(Hyperparameters, ExpertsAndWindows_areTakenAndMustBePossible) {
  ModelFile file = small_llama();
  file.set("llama.attention.sliding_window", std::uint64_t{4096});
  file.set("llama.expert_count", std::uint64_t{8});
  expect_refusal(file, "llama.expert_used_count is missing");
  file.set("llama.expert_used_count", std::uint64_t{2});
  const Hyperparameters h = read(file);
  EXPECT_EQ(h.layer_at(1).window, 4096);
  EXPECT_EQ(h.layer_at(1).experts, 8);
  EXPECT_EQ(h.layer_at(1).experts_used, 2);
  EXPECT_EQ(h.layer_at(1).expert_ffn, h.ffn);
  for (const auto& [key, value] : {std::pair{"llama.expert_used_count", std::uint64_t{9}},
                                   {"llama.expert_used_count", std::uint64_t{0}},
                                   {"llama.expert_count", std::uint64_t{1} << 40},
                                   {"llama.expert_count", ~std::uint64_t{0}},
                                   {"llama.expert_feed_forward_length", std::uint64_t{0}},
                                   {"llama.expert_shared_count", std::uint64_t{1} << 33},
                                   {"llama.leading_dense_block_count", std::uint64_t{3}},
                                   {"llama.expert_gating_func", std::uint64_t{4}},
                                   {"llama.attention.sliding_window", std::uint64_t{1} << 50}}) {
    ModelFile hostile = file;
    hostile.set(key, value);
    expect_refusal(hostile, key);
  }
  file.set("llama.leading_dense_block_count", std::uint64_t{1});
  EXPECT_EQ(read(file).layer_at(0).experts, 0);
  EXPECT_EQ(read(file).layer_at(1).experts, 8);
}

TEST(Hyperparameters, LatentAttention_isTakenAndMustBePossible) {
  ModelFile file = small_llama();
  file.set("llama.attention.kv_lora_rank", std::uint64_t{48});
  file.set("llama.attention.key_length", std::uint64_t{40});
  file.set("llama.attention.value_length", std::uint64_t{24});
  file.set("llama.rope.dimension_count", std::uint64_t{16});
  const Hyperparameters h = read(file);
  EXPECT_EQ(h.head_dim, 64) << "what is cached";
  EXPECT_EQ(h.kv_heads, 1);
  EXPECT_EQ(h.query_dim(), 40);
  EXPECT_EQ(h.value_dim(), 24);
  EXPECT_EQ(h.layer.plain_dim, 24);
  ModelFile newer = file;
  newer.set("llama.attention.key_length", std::uint64_t{64});
  newer.set("llama.attention.value_length", std::uint64_t{48});
  newer.set("llama.attention.key_length_mla", std::uint64_t{40});
  newer.set("llama.attention.value_length_mla", std::uint64_t{24});
  EXPECT_EQ(read(newer).query_dim(), 40);
  EXPECT_EQ(read(newer).value_dim(), 24);
  for (const auto& [key, value, part] : {std::tuple{"llama.attention.kv_lora_rank", std::uint64_t{0}, "kv_lora_rank is 0"},
                                         {"llama.attention.kv_lora_rank", std::uint64_t{1} << 40, "kv_lora_rank"},
                                         {"llama.attention.kv_lora_rank", std::uint64_t{1024}, "head size 1040"},
                                         {"llama.attention.q_lora_rank", std::uint64_t{1} << 40, "q_lora_rank"},
                                         {"llama.attention.value_length", std::uint64_t{0}, "value_length is 0"},
                                         {"llama.attention.key_length", std::uint64_t{16}, "heads of 16 elements of which 16 rotate"}}) {
    ModelFile hostile = file;
    hostile.set(key, value);
    expect_refusal(hostile, part);
  }
}

TEST(Hyperparameters, GroupsOfExperts_mustBePossible) {
  ModelFile file = small_llama();
  file.set("llama.expert_count", std::uint64_t{12});
  file.set("llama.expert_used_count", std::uint64_t{4});
  file.set("llama.expert_group_count", std::uint64_t{4});
  expect_refusal(file, "llama.expert_group_used_count is missing");
  file.set("llama.expert_group_used_count", std::uint64_t{1});
  expect_refusal(file, "1 groups of experts have fewer than the 4 that a token uses");
  file.set("llama.expert_group_used_count", std::uint64_t{2});
  EXPECT_EQ(read(file).layer_at(0).expert_groups, 4);
  for (const std::uint64_t groups : {5, 12}) {
    file.set("llama.expert_group_count", groups);
    expect_refusal(file, "groups of two or more");
  }
  file.set("llama.expert_group_count", std::uint64_t{1});
  EXPECT_EQ(read(file).layer_at(0).expert_groups, 0);
}

TEST(Hyperparameters, EmbeddingThatDoesNotFitTheVocabulary_isRefused) {
  ModelFile file = small_llama();
  file.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>(10, "x");
  EXPECT_EQ(refusal(file), "it was read");
  file.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>(11, "x");
  expect_refusal(file, "11 tokens, but token_embd.weight 10 rows");
}

TEST(Hyperparameters, HeadCountsThatDoNotFit_areRefused) {
  expect_refusal("llama.attention.head_count_kv", std::uint64_t{3}, "4 heads do not share 3 key/value heads");
  expect_refusal("llama.attention.head_count_kv", std::uint64_t{8}, "llama.attention.head_count_kv is 8, outside 1..4");
  expect_refusal("llama.attention.head_count_kv", std::uint64_t{0}, "llama.attention.head_count_kv is 0");
  expect_refusal("llama.attention.head_count", std::uint64_t{0}, "llama.attention.head_count is 0");
  expect_refusal("llama.attention.head_count", std::uint64_t{128}, "head size 0");  // more heads than dimensions
  expect_refusal("llama.attention.key_length", std::uint64_t{1024}, "head size 1024 is not between 1 and 576");
}

TEST(Hyperparameters, HeadsOfOtherSizesThanMultiplesOf16_areCachedInMultiplesOf32) {
  for (const auto& [size, cached] : {std::pair{8, 32}, {24, 32}, {48, 48}, {80, 80}, {100, 128}, {120, 128}}) {
    ModelFile file = small_llama();
    for (const char* key : {"llama.attention.key_length", "llama.attention.value_length"}) file.set(key, static_cast<std::uint64_t>(size));
    const Hyperparameters h = read(file);
    EXPECT_EQ(h.head_dim, cached);
    EXPECT_EQ(h.query_dim(), size);
    EXPECT_EQ(h.key_dim(), size);
    EXPECT_EQ(h.value_dim(), size);
    EXPECT_EQ(h.rotary_dim, size);
  }
}

TEST(Hyperparameters, CountsOutOfRange_areRefused) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62, kBeyond = ~std::uint64_t{0};
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length", "llama.context_length",
                          "llama.attention.head_count", "llama.rope.dimension_count"}) {
    expect_refusal(key, std::uint64_t{0}, std::string(key) + " is 0");
    expect_refusal(key, kHuge, std::string(key) + " is " + std::to_string(kHuge));
    expect_refusal(key, kBeyond, key);
    expect_refusal(key, "many", std::string(key) + " is not an integer");
    ModelFile file = small_llama();
    file.metadata[key] = std::int64_t{-3};
    expect_refusal(file, std::string(key) + " is -3");
    file.metadata[key] = std::vector<std::uint64_t>{4, 5};  // one value per layer
    const bool per_layer = std::string_view(key).ends_with("head_count") || std::string_view(key).ends_with("forward_length");
    expect_refusal(file, std::string(key) + (per_layer ? " differs between layers" : " is not an integer"));
  }
  expect_refusal("llama.rope.dimension_count", std::uint64_t{7}, "rotary dimension 7 is odd");
}

TEST(Hyperparameters, NumbersThatCannotBeComputedWith_areRefused) {
  for (const double bad : {0.0, -1.0, kInfinity, std::nan("")}) {
    for (const char* key : {"llama.rope.freq_base", "llama.attention.layer_norm_rms_epsilon"}) expect_refusal(key, bad, key);
    for (const char* kind : {"linear", "yarn"}) {
      for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scaling.attn_factor"}) {
        ModelFile file = small_llama();
        file.set("llama.rope.scaling.type", kind);
        file.set(key, bad);
        expect_refusal(file, key);
      }
    }
  }
  expect_refusal("llama.rope.freq_base", "big", "llama.rope.freq_base is not a number");
  ModelFile yarn = small_llama();
  yarn.set("llama.rope.scaling.type", "yarn");
  yarn.set("llama.rope.freq_base", 1.0);  // all pairs have the same frequency, so they do not determine a scale
  expect_refusal(yarn, "llama.rope.freq_base");
}

TEST(Hyperparameters, KeyThatNothingReads_isRefusedByName_unlessItIsHarmless) {
  for (const char* key : {"llama.attention.scale", "llama.attention.temperature_scale", "llama.logit_scale", "llama.rope.scaling.alpha",
                          "llama.rope.freq_base_swa", "llama.made.up", "tokenizer.ggml.made_up"})
    expect_refusal(key, std::uint64_t{1}, std::string(key) + " is not supported");
  expect_refusal("tokenizer.ggml.suppress_tokens", std::uint64_t{1}, "suppress_tokens is not an array of numbers");
  ModelFile file = small_llama();
  for (const char* key : {"llama.vocab_size", "llama.vision.block_count", "llama.attention.layer_norm_epsilon", "qwen2.attention.scale",
                          "tokenizer.ggml.padding_token_id", "tokenizer.ggml.fim_pre_token_id", "general.made_up"})
    file.set(key, std::uint64_t{1});
  EXPECT_EQ(refusal(file), "it was read");
  file.metadata["llama.attention.causal"] = true;
  EXPECT_EQ(refusal(file), "it was read");
  file.metadata["llama.attention.causal"] = false;
  expect_refusal(file, "tokens see those after them");
}

TEST(Hyperparameters, KeysOfExperts_haveNoMeaningWithoutExperts) {
  ModelFile file = small_llama();
  for (const char* key : {"llama.expert_count", "llama.expert_used_count", "llama.expert_shared_count"}) file.set(key, std::uint64_t{0});
  EXPECT_EQ(refusal(file), "it was read");
}

TEST(Hyperparameters, ListOfEqualNumbers_isTheirNumber) {
  ModelFile file = small_llama();
  file.metadata["llama.attention.head_count"] = std::vector<std::int64_t>{4, 4};
  file.metadata["llama.attention.head_count_kv"] = std::vector<std::uint64_t>{2, 2};
  file.metadata["llama.feed_forward_length"] = std::vector<std::int64_t>{96, 96};
  EXPECT_EQ(read(file).heads, 4);
  EXPECT_EQ(read(file).kv_heads, 2);
  EXPECT_EQ(read(file).ffn, 96);
  for (const auto& numbers : {std::vector<std::int64_t>{4, 2}, {}, {-1, -1}, {1 << 20, 1 << 20}}) {
    file.metadata["llama.attention.head_count"] = numbers;
    expect_refusal(file, "llama.attention.head_count ");
  }
}

/// Layers with a window.
std::string windowed(const Hyperparameters& h) {
  std::string layers;
  for (std::int64_t i = 0; i < h.layers; ++i) layers += h.layer_at(i).window > 0 ? 'w' : '.';
  return layers;
}

TEST(Hyperparameters, WindowPattern_isANumberOrAList) {
  ModelFile file = small_model("olmo2");
  file.set("olmo2.block_count", std::uint64_t{4});
  file.set("olmo2.attention.sliding_window", std::uint64_t{8});
  file.set("olmo2.rope.scaling.factor", 4.0);
  EXPECT_EQ(windowed(read(file)), "www.");
  const auto set = [&](gguf::Value value) { file.metadata["olmo2.attention.sliding_window_pattern"] = std::move(value); };
  set(std::uint64_t{2});
  EXPECT_EQ(windowed(read(file)), "w.w.");
  set(std::uint64_t{0});
  EXPECT_EQ(windowed(read(file)), "wwww");
  set(std::vector<bool>{true, false, false, true});
  const Hyperparameters h = read(file);
  EXPECT_EQ(windowed(h), "w..w");
  EXPECT_FALSE(h.layer_at(3).rope_scaled);
  EXPECT_TRUE(h.layer_at(2).rope_scaled);
  EXPECT_EQ(h.layer_at(4).window, 0) << "beyond the list";
  set(std::vector<std::int64_t>{0, 1, 1, 0});
  EXPECT_EQ(windowed(read(file)), ".ww.");
  set(std::vector<bool>{true, false, false});
  expect_refusal(file, "sliding_window_pattern has 3 values for 4 layers");
}

TEST(Hyperparameters, ScalingWithoutAType_isLinear_orThatOfTheFactorsPerPair) {
  ModelFile file = small_llama();
  file.set("llama.rope.scaling.attn_factor", 1.5);
  EXPECT_EQ(read(file).rope.kind, RopeScaling::Kind::kNone);
  EXPECT_EQ(read(file).rope.attention_factor, 1.5f);
  file.set("llama.rope.scaling.factor", 4.0);
  EXPECT_EQ(read(file).rope.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(read(file).rope.factor, 4.0f);
  file.set("llama.rope.scaling.type", "none");
  EXPECT_EQ(read(file).rope.kind, RopeScaling::Kind::kNone);
  EXPECT_EQ(read(file).rope.factor, 1.0f);
  ModelFile factors = small_llama();
  factors.tensors["rope_factors_long.weight"] = {8};
  EXPECT_EQ(read(factors).rope.kind, RopeScaling::Kind::kLong);
}

TEST(Hyperparameters, NumbersOfYarn_areTaken_orRefused) {
  ModelFile file = small_llama();
  file.set("llama.rope.scaling.type", "yarn");
  file.set("llama.rope.scaling.yarn_beta_fast", 16.0);
  file.set("llama.rope.scaling.yarn_beta_slow", 2.0);
  file.set("llama.rope.scaling.yarn_ext_factor", 1.0);
  EXPECT_EQ(read(file).rope.beta_fast, 16);
  EXPECT_EQ(read(file).rope.beta_slow, 2);
  file.set("llama.rope.scaling.yarn_attn_factor", 0.5);
  expect_refusal(file, "llama.rope.scaling.yarn_attn_factor other than 1");
}

TEST(Hyperparameters, OldFiles_scaleLinearly) {
  ModelFile file = small_llama();
  file.set("llama.rope.scale_linear", 4.0);
  EXPECT_EQ(read(file).rope.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(read(file).rope.factor, 4.0f);
  for (const double none : {0.0, 1.0}) {  // converters wrote 0 for models without scaling
    file.set("llama.rope.scale_linear", none);
    EXPECT_EQ(read(file).rope.kind, RopeScaling::Kind::kNone) << none;
  }
  file.set("llama.rope.scale_linear", kInfinity);
  expect_refusal(file, "llama.rope.scale_linear");
}

}  // namespace
}  // namespace yamata
