// Which layers have states, and what shapes them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "node/error.hpp"
#include "src/model/hyperparameters.hpp"
#include "src/model/passed_rows.hpp"
#include "src/model/shard.hpp"
#include "tests/model/support.hpp"

namespace yamata {
namespace {

Hyperparameters shaped(ModelFile file) {
  const gguf::File read = file.read();
  return Hyperparameters::read(read);
}

void expect_refused(const ModelFile& file, const std::string& part) {
  try {
    shaped(file);
    ADD_FAILURE() << "it was read, without '" << part << "'";
  } catch (const ModelError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(StateLayers, areEveryFewOrListed_andMustBePossible) {
  ModelFile file = small_model("qwen35");
  file.set("qwen35.block_count", std::uint64_t{5});
  file.metadata["qwen35.rope.dimension_sections"] = std::vector<std::int64_t>{3, 3, 2, 0};
  for (const auto& [key, value] :
       {std::pair{"conv_kernel", 4}, {"inner_size", 96}, {"state_size", 16}, {"time_step_rank", 6}, {"group_count", 2}})
    file.set(std::string("qwen35.ssm.") + key, static_cast<std::uint64_t>(value));
  const auto recurrent = [&] {
    const Hyperparameters h = shaped(file);
    std::string layers;
    for (std::int64_t i = 0; i <= h.layers; ++i) layers += h.layer_at(i).recurrent() ? 's' : h.layer_at(i).output_gate ? 'a' : '?';
    return layers;
  };
  EXPECT_EQ(recurrent(), "sssasa") << "and no state in a layer after the last";
  file.set("qwen35.full_attention_interval", std::uint64_t{2});
  EXPECT_EQ(recurrent(), "sasasa");
  file.metadata["qwen35.attention.recurrent_layers"] = std::vector<bool>{false, true, true, false, false};
  EXPECT_EQ(recurrent(), "assaaa");
  EXPECT_EQ(shaped(file).state.key_head_of(3), 1) << "in turn";
  file.metadata["qwen35.attention.recurrent_layers"] = std::vector<bool>{true};
  expect_refused(file, "recurrent_layers has 1 values for 5 layers");
  file.metadata.erase("qwen35.attention.recurrent_layers");
  for (const auto& [key, value, part] : {std::tuple{"conv_kernel", 3, "convolutions of 3 tokens"},
                                         {"state_size", 24, "a state size of 24"},
                                         {"group_count", 4, "6 value heads do not share 4"},
                                         {"inner_size", 97, "97 is not 6 heads of 16"},
                                         {"time_step_rank", 0, "ssm.time_step_rank"}}) {
    ModelFile other = file;
    other.set(std::string("qwen35.ssm.") + key, static_cast<std::uint64_t>(value));
    expect_refused(other, part);
  }
  file.set("qwen35.attention.key_length", std::uint64_t{24});
  file.set("qwen35.attention.value_length", std::uint64_t{24});
  expect_refused(file, "heads with gates are supported only in multiples of 16");
}

TEST(StateLayers, OfLfm2_haveNoKeyValueHeads) {
  ModelFile file = small_model("lfm2");
  file.set("lfm2.block_count", std::uint64_t{4});
  file.set("lfm2.shortconv.l_cache", std::uint64_t{3});
  const auto layers = [&] {
    const Hyperparameters h = shaped(file);
    std::string text;
    for (std::int64_t i = 0; i < h.layers; ++i) text += h.layer_at(i).mixer == Mixer::kConvolution ? 's' : 'a';
    return fmt::format("{} {}", text, h.kv_heads);
  };
  EXPECT_EQ(layers(), "aaaa 4");
  file.metadata["lfm2.attention.head_count_kv"] = std::vector<std::int64_t>{0, 2, 0, 2, 2};
  EXPECT_EQ(layers(), "sasa 2");
  const StateShape state = shaped(file).state;
  EXPECT_EQ(state.channels(), 64);
  EXPECT_EQ(state.taps, 3);
  EXPECT_EQ(state.state_floats() + state.update_floats(), 0) << "only columns";
  file.metadata["lfm2.attention.head_count_kv"] = std::vector<std::int64_t>{0, 0, 0, 0};
  EXPECT_EQ(layers(), "ssss 4");
  file.metadata["lfm2.attention.head_count_kv"] = std::vector<std::int64_t>{0, 2, 0};
  expect_refused(file, "head_count_kv has 3 values for 4 layers");
  file.metadata["lfm2.attention.head_count_kv"] = std::vector<std::int64_t>{0, 2, 1, 0};
  expect_refused(file, "head_count_kv differs between layers");
  file.metadata.erase("lfm2.attention.head_count_kv");
  for (const std::uint64_t taps : {1, 5}) {
    ModelFile other = file;
    other.set("lfm2.shortconv.l_cache", taps);
    expect_refused(other, fmt::format("convolutions of {} tokens", taps));
  }
  file.set("lfm2.attention.sliding_window", std::uint64_t{16});
  expect_refused(file, "lfm2.attention.sliding_window is not supported");
}

/// Of which every fourth layer attends.
ModelFile small_qwen4exp(std::uint64_t layers = 5) {
  ModelFile file = small_model("qwen4exp");
  const auto set = [&](const std::string& key, std::uint64_t value) { file.set("qwen4exp." + key, value); };
  set("block_count", layers), set("expert_count", 4), set("expert_used_count", 2), set("expert_feed_forward_length", 32);
  for (const auto& [key, value] :
       {std::pair{"conv_kernel", 4}, {"inner_size", 96}, {"state_size", 16}, {"time_step_rank", 6}, {"group_count", 2}})
    set(std::string("ssm.") + key, static_cast<std::uint64_t>(value));
  file.metadata["qwen4exp.rope.dimension_sections"] = std::vector<std::int64_t>{3, 3, 2, 0};
  set("attention.indexer.head_count", 2), set("attention.indexer.key_length", 16), set("attention.indexer.top_k", 8);
  set("hyper_connection.count", 3), set("hyper_connection.low_rank", 24);
  return file;
}

TEST(StateLayers, OfQwen4exp_haveStreams_andSparseAttention) {
  ModelFile file = small_qwen4exp();
  const auto set = [&](const std::string& key, std::uint64_t value) { file.set("qwen4exp." + key, value); };
  ModelFile other = file;
  other.metadata.erase("qwen4exp.hyper_connection.low_rank");
  expect_refused(other, "qwen4exp.hyper_connection.low_rank is missing");
  const Hyperparameters h = shaped(file);
  EXPECT_EQ(h.layer.streams, 3);
  EXPECT_EQ(h.layer.stream_rank, 24);
  EXPECT_EQ(h.residual_dim(), 3 * 64);
  EXPECT_EQ(PassedRows(h, 2).width(), 3 * 64) << "of a token, between stages";
  EXPECT_TRUE(h.layer_at(0).sigmoid_gate && h.layer_at(0).recurrent() && h.layer_at(3).output_gate);
  file.metadata["qwen4exp.attention.compress_ratios"] = std::vector<std::int64_t>{4, 4, 4, 0, 4};
  EXPECT_FALSE(shaped(file).is_sparse()) << "only layer 3 attends";
  set("embedding_length", 48), set("attention.key_length", 16), set("attention.value_length", 16);
  file.tensors["token_embd.weight"] = {48, 10};
  expect_refused(file, "hyper-connections of 48 values");
}

TEST(StateLayers, OfQwen4exp_mayReadNgrams) {
  using Whole = std::vector<std::int64_t>;
  ModelFile file = small_qwen4exp();
  const auto set = [&](const std::string& key, auto value) { file.metadata["qwen4exp." + key] = value; };
  const auto refused_with = [&](const std::string& key, Whole value, const std::string& expected) {
    ModelFile other = file;
    other.metadata["qwen4exp." + key] = std::move(value);
    expect_refused(other, expected);
  };
  set("ple.layers", Whole{1});
  expect_refused(file, "qwen4exp.ple.ngram_size is missing");
  for (const auto& [key, value] :
       {std::pair{"ple.ngram_size", 3}, {"ple.heads_per_ngram", 1}, {"ple.conv_kernel", 4}, {"ple.eos_token_id", 9}})
    set(key, static_cast<std::uint64_t>(value));
  set("embedding_length_per_layer_input", std::uint64_t{16});
  file.tensors["per_layer_token_embd.weight"] = {16, 30};
  set("ple.layer_multipliers", Whole{3, 5, 7}), set("ple.head_offsets", Whole{0, 11}), set("ple.head_vocab_sizes", Whole{11, 19});
  const Hyperparameters h = shaped(file);
  EXPECT_EQ(h.ngrams.dim(), 2 * 16);
  EXPECT_EQ(h.ngrams.kept(), 9);
  EXPECT_TRUE(h.layer_at(1).reads_ngrams && !h.layer_at(0).reads_ngrams && !h.layer_at(2).reads_ngrams);
  EXPECT_EQ(PassedRows(h, 1).width(), 3 * 64 + 2 * 16) << "of a token, up to the layer that reads them";
  EXPECT_EQ(PassedRows(h, 2).width(), 3 * 64);
  refused_with("ple.layers", {1, 2}, "more than one layer");
  refused_with("ple.layers", {5}, "layer 5 of 5");
  refused_with("ple.layers", {3}, "n-gram embeddings of layer 3, which attends");
  refused_with("ple.layer_multipliers", {3, 5}, "ple.layer_multipliers has 2 whole numbers, not 3");
  refused_with("ple.head_offsets", {0, -1}, "ple.head_offsets has a negative number");
  refused_with("ple.head_vocab_sizes", {11, 20}, "n-gram head 1 has rows 11 to 31 of 30");
  refused_with("ple.head_vocab_sizes", {11, 0}, "n-gram head 1 has rows 11 to 11 of 30");
  ModelFile other = file;
  other.set("qwen4exp.ple.conv_kernel", std::uint64_t{1});
  expect_refused(other, "a convolution of one token");
  set("ple.ngram_size", std::uint64_t{1});
  expect_refused(file, "n-grams of one token");
}

TEST(StateLayers, OfQwen4exp_attendToBlocks_asTheFileSays) {
  ModelFile file = small_qwen4exp(8);
  const auto set = [&](const std::string& key, std::uint64_t value) { file.set("qwen4exp." + key, value); };
  const auto blocks = [&](std::vector<std::int64_t> tokens) { file.metadata["qwen4exp.attention.compress_ratios"] = std::move(tokens); };
  blocks({0, 0, 0, 4, 0, 0, 0, 0});
  expect_refused(file, "keys of an index of 16 values are not a multiple of 32");
  set("attention.indexer.key_length", 32);
  const auto picked_of = [&] {
    const Hyperparameters h = shaped(file);
    std::vector<std::int64_t> picked;
    for (std::int64_t layer = 0; layer < h.layers; ++layer) picked.push_back(h.layer_at(layer).picked);
    EXPECT_EQ(h.layer.index_block, 4);
    EXPECT_EQ(h.layer_at(3).index_heads, 2);
    return picked;
  };
  EXPECT_EQ(picked_of(), (std::vector<std::int64_t>{0, 0, 0, 8, 0, 0, 0, 0}));
  set("attention.compress_ratios", 4);
  EXPECT_EQ(picked_of(), (std::vector<std::int64_t>{0, 0, 0, 8, 0, 0, 0, 8}));
  set("attention.indexer.top_k", 10);
  expect_refused(file, "attention.indexer.top_k 10 is no number of whole blocks of 4");
  set("attention.indexer.top_k", 8);
  blocks({0, 0, 0, 4, 0, 0, 0, 2});
  expect_refused(file, "attention.compress_ratios differ between layers");
  blocks({0, 0, 0, -4, 0, 0, 0, 4});
  expect_refused(file, "attention.compress_ratios of layer 3 is -4");
  file.metadata["qwen4exp.attention.compress_ratios"] = std::vector<bool>(8, true);
  expect_refused(file, "attention.compress_ratios is not an array of numbers");
  blocks({0, 0, 0, 4, 0});
  expect_refused(file, "has 5 values for 8 layers");
}

TEST(StateLayers, OfAScan_haveNoKeyValueHeads_andMayHaveNoFeedForward) {
  for (const std::string family : {"granitehybrid", "nemotron_h"}) {
    ModelFile file = small_model(family);
    const auto key = [&](const char* name) { return fmt::format("{}.{}", family, name); };
    file.set(key("block_count"), std::uint64_t{4});
    for (const auto& [name, value] :
         {std::pair{"conv_kernel", 4}, {"inner_size", 96}, {"state_size", 48}, {"time_step_rank", 6}, {"group_count", 2}})
      file.set(key("ssm.") + name, static_cast<std::uint64_t>(value));
    const auto layers = [&] {
      const Hyperparameters h = shaped(file);
      std::string text;
      for (std::int64_t i = 0; i < h.layers; ++i) {
        const LayerSpec spec = h.layer_at(i);
        text += fmt::format("{}{} ", spec.attends() ? "a" : spec.recurrent() ? "s" : "", spec.feeds ? "f" : "");
      }
      return text;
    };
    file.metadata[key("attention.head_count_kv")] = std::vector<std::int64_t>{0, 2, 0, 0, 2};
    const bool alone = family == "nemotron_h";
    EXPECT_EQ(layers(), alone ? "f f f f " : "sf af sf sf ");
    file.metadata[key("feed_forward_length")] = std::vector<std::int64_t>{0, 0, 48, 48, 48};
    if (alone) {
      EXPECT_EQ(layers(), "s a f f ");
    } else {
      expect_refused(file, "feed_forward_length differs between layers");
      file.set(key("feed_forward_length"), std::uint64_t{48});
    }
    const StateShape state = shaped(file).state;
    EXPECT_EQ(state.channels(), 96 + 2 * 2 * 48);
    EXPECT_EQ(state.state_floats(), 96 * 48);
    EXPECT_EQ(state.some(3, 6).channels(), 48 + 2 * 48);
    for (const auto& [name, value, part] : {std::tuple{"conv_kernel", 3, "convolutions of 3 tokens"},
                                            {"state_size", 24, "states of 24 x 16"},
                                            {"state_size", 512, "ssm.state_size is 512"},
                                            {"group_count", 4, "6 heads are not 4 equal groups"},
                                            {"inner_size", 97, "97 is not divided by 6 heads"},
                                            {"inner_size", 6 * 24, "states of 48 x 24"},
                                            {"inner_size", 6 * 272, "states of 48 x 272"}}) {
      ModelFile other = file;
      other.set(key("ssm.") + name, static_cast<std::uint64_t>(value));
      expect_refused(other, part);
    }
  }
}

/// Value heads and their key heads of each member, with queries and keys as rows of the file.
TEST(StateLayers, areDividedByHeads_withTheKeyHeadsThatTheseRead) {
  const auto members = [](StateShape state, std::vector<double> shares) {
    Hyperparameters h;
    h.layers = 4, h.dim = 512, h.ffn = 512, h.vocabulary = 512, h.heads = h.kv_heads = 8, h.head_dim = 32;
    h.state = state;
    std::string text;
    for (int own = 0; own < std::ssize(shares); ++own) {
      const Shard shard(h, shares, own);
      const StateShape& part = shard.state();
      const Interval values = shard.rows(Extent::kStateHeads), keys = shard.rows(Extent::kStateKeys);
      EXPECT_EQ(values.count(), part.heads);
      EXPECT_EQ(keys.count(), part.keys());
      for (std::int64_t head = 0; head < part.heads; ++head) {
        const std::int64_t key = part.key_head_of(head);
        EXPECT_TRUE(key >= 0 && key < part.key_heads);
        EXPECT_EQ(key + keys.begin / state.key_size(), state.key_head_of(values.begin + head));
      }
      text += fmt::format("{}-{}:{}-{} ", values.begin, values.end, keys.begin / state.key_size(), keys.end / state.key_size());
    }
    return text;
  };
  const StateShape next{.heads = 6, .key_heads = 2, .dim = 32}, in_turn{.heads = 6, .key_heads = 4, .dim = 32, .cyclic = true};
  EXPECT_EQ(members(next, {1, 1}), "0-3:0-1 3-6:1-2 ");
  EXPECT_EQ(members(next, {1, 2}), "0-2:0-1 2-6:0-2 ");
  EXPECT_EQ(members(in_turn, {1, 2}), "0-2:0-2 2-6:0-4 ");
  EXPECT_EQ(members(in_turn, {1, 1, 1}), "0-2:0-2 2-4:2-4 4-6:0-2 ");
  EXPECT_EQ(members(in_turn, {3, 2, 1}), "0-3:0-3 3-5:0-4 5-6:1-2 ") << "3 and 0, with all between them";
  EXPECT_EQ(StateShape({.heads = 6, .dim = 16}).some(2, 5).channels(), 3 * 16) << "channels alone";
  const StateShape groups{.heads = 6, .key_heads = 2, .dim = 32, .key_dim = 16, .scan = true};
  EXPECT_EQ(members(groups, {1, 5}), "0-3:0-1 3-6:1-2 ") << "what is normalized together stays so";
  const StateShape all{.heads = 6, .key_heads = 1, .dim = 32, .key_dim = 16, .scan = true};
  EXPECT_EQ(members(all, {1, 5}), "0-1:0-1 1-6:0-1 ");
}

}  // namespace
}  // namespace yamata
