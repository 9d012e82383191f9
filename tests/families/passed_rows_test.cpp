// What passes a cut between stages besides the residual stream, and what no layout generates: the bits of one rank.
#include <cmath>

#include "tests/families/layouts.hpp"

namespace yamata::families_test {
namespace {

/// Where a cut lies between a layer and those that share its keys and values, these pass with the activations, and per-layer embeddings.
TEST_F(LayoutsOfOne, SharedKeys_passEveryCut) {
  const ModelFile model = open("Q8_0", "gemma4-shared");
  const std::int64_t layers = model.h.layers;
  ASSERT_EQ(model.h.cache_layer(layers - 1), model.h.first_shared - 2);
  const std::vector<Batch> batches = singly(20);
  std::vector<LayerRange> each;
  for (std::int64_t layer = 0; layer < layers; ++layer) each.push_back({layer, layer + 1});
  const Logits expected = compute(model, {{0, layers}}, batches, {});
  EXPECT_EQ(compute(model, each, batches, {}), expected);
  EXPECT_EQ(together(model, each, batches, {0.4, 0.6}), expected);
  const auto cells = static_cast<std::int32_t>(WindowCells::enough(kWindow, 20, 0));
  for (std::int64_t cut = 1; cut < layers; ++cut) {
    const std::vector<LayerRange> two{{0, cut}, {cut, layers}};
    EXPECT_EQ(compute(model, two, batches, {}, cells), expected) << cut;
    EXPECT_EQ(together(model, two, batches, {1, 1}), expected) << cut;
  }
}

/// A table of n-gram embeddings may be larger than memory: no rank reads it all, or counts it.
TEST_F(LayoutsOfOne, NgramTable_staysInTheFile) {
  const ModelFile model = open("F32", "qwen4exp-ngrams");
  const gguf::Tensor& table = model.file.tensor("per_layer_token_embd.weight");
  const Shard all(model.h);
  for (const std::span<const std::byte> read : stage_tensors(model.file, model.h, {0, 1}, all))
    EXPECT_TRUE(read.data() + read.size() <= table.data || table.data + table.bytes <= read.data());
  std::size_t bytes = 0;
  for (const FoundTensor& found : find_tensors(model.file, model.h, {0, 1}, all)) bytes += found.held_bytes();
  EXPECT_EQ(stage_bytes(model.file, model.h, {0, 1}), bytes - table.bytes);
  EXPECT_EQ(in_file_bytes(model.file, model.h, {0, 1}, all), table.bytes);
  EXPECT_EQ(in_file_bytes(model.file, model.h, {1, 3}, all), 0);
  EXPECT_EQ(StageWeights::find_rest(model.file, model.h).matrix(TensorRole::kNgramEmbedding).data, nullptr) << "draft heads do not need it";
}

TEST_F(LayoutsOfOne, SuppressedTokens_haveNoProbability) {
  ModelFile model = open("F32", "gemma4");
  const std::vector<LayerRange> whole{{0, model.h.layers}};
  const std::vector<Batch> batches = singly(20);
  Logits expected = compute(model, whole, batches, {});
  model.h.suppressed = {7, 300, 511};
  for (std::size_t row = 0; row < expected.size(); row += static_cast<std::size_t>(model.h.vocabulary)) {
    for (const std::int32_t token : model.h.suppressed) expected[row + static_cast<std::size_t>(token)] = -HUGE_VALF;
  }
  EXPECT_EQ(compute(model, whole, batches, {}), expected);
  EXPECT_EQ(together(model, whole, batches, {0.4, 0.6}), expected);
  EXPECT_EQ(compute(*make_units(kUnits.back()), model, whole, batches, {}), expected);
}

/// All streams pass; the input of a layer, as draft heads read it, is their mean.
TEST_F(LayoutsOfOne, Streams_pass_andTheirMeanIsTheFeature) {
  const ModelFile model = open("F32", "qwen4exp");
  const auto dim = static_cast<std::size_t>(model.h.dim), streams = static_cast<std::size_t>(model.h.layer.streams);
  const Batch batch = text(tiny_prompt(), 0);
  CpuUnit unit({-1}, cpu::choose_isa());
  const ContextOptions options{64, 4, CacheType::kF16};
  TransformerStage first(model.file, model.h, {0, 2}, options, unit), whole(model.file, model.h, {0, model.h.layers}, options, unit);
  first.start({batch.tokens, {}, batch.placements, {}}, nullptr);
  finish(unit);
  ASSERT_EQ(first.activations().size(), batch.tokens.size() * streams * dim);
  const std::vector<std::int32_t> rows{0, 5}, layers{2, kOutputFeatures};
  whole.start({.tokens = batch.tokens,
               .activations = {},
               .placements = batch.placements,
               .logit_rows = {},
               .feature_rows = rows,
               .feature_layers = layers},
              nullptr);
  finish(unit);
  ASSERT_EQ(whole.features().size(), layers.size() * rows.size() * dim);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t i = 0; i < dim; ++i) {
      double mean = 0;
      for (std::size_t s = 0; s < streams; ++s)
        mean += static_cast<double>(first.activations()[(static_cast<std::size_t>(rows[row]) * streams + s) * dim + i]) /
                static_cast<double>(streams);
      EXPECT_NEAR(whole.features()[row * dim + i], mean, 1e-5) << row << " " << i;
    }
  }
}

}  // namespace
}  // namespace yamata::families_test
