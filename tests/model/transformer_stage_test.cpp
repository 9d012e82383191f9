// The same bits for any chunks of a prompt and any division of layers.
#include "src/model/transformer_stage.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "node/cpu/cpu_unit.hpp"
#include "tests/finish.hpp"
#include "tests/model/tales.hpp"

namespace yamata {
namespace {

class TransformerStageTest : public ::testing::Test {
 protected:
  TransformerStageTest() : file_(gguf::File::open(kModel)), h_(Hyperparameters::read(file_)), unit_({-1, -1}, cpu::choose_isa()) {}

  TransformerStage stage(LayerRange range, CacheType type = CacheType::kF16) { return {file_, h_, range, {256, 8, type}, unit_}; }

  void run(StageModel& model, const StageBatch& batch) {
    model.start(batch, nullptr);
    finish(unit_);
  }

  /// Logits of the last token, if the tokens pass the given stages in chunks.
  std::vector<float> last_logits(std::size_t chunk, std::vector<LayerRange> ranges, CacheTypes types = CacheType::kF16) {
    std::deque<TransformerStage> stages;
    for (const LayerRange range : ranges) stages.emplace_back(file_, h_, range, ContextOptions{256, 8, types}, unit_);
    for (std::size_t at = 0; at < kTokens.size(); at += chunk) {
      const std::size_t n = std::min(chunk, kTokens.size() - at);
      std::vector<Placement> placements;
      for (std::size_t i = at; i < at + n; ++i) placements.push_back({static_cast<std::int32_t>(i), -1, {0, 1}});
      const std::vector<std::int32_t> logit_rows{static_cast<std::int32_t>(n) - 1};
      std::vector<float> activations;
      for (StageModel& model : stages) {
        run(model, {std::span(kTokens).subspan(at, n), activations, placements, logit_rows});
        activations.assign(model.activations().begin(), model.activations().end());
      }
    }
    return {stages.back().logits().begin(), stages.back().logits().end()};
  }

  gguf::File file_;
  Hyperparameters h_;
  CpuUnit unit_;
};

TEST_F(TransformerStageTest, chunks_and_splits_do_not_change_a_bit) {
  const std::vector<float> whole = last_logits(kTokens.size(), {{0, 8}});
  ASSERT_EQ(whole.size(), 4096u);
  ASSERT_NE(whole[0], whole[1]);
  EXPECT_EQ(last_logits(1, {{0, 8}}), whole);
  EXPECT_EQ(last_logits(7, {{0, 8}}), whole);
  EXPECT_EQ(last_logits(4, {{0, 3}, {3, 8}}), whole);
  EXPECT_EQ(last_logits(10, {{0, 1}, {1, 7}, {7, 8}}), whole);
}

TEST_F(TransformerStageTest, layer_is_computed_in_as_many_operations_as_simulations_take_it_for) {
  TransformerStage middle = stage({2, 5});
  const std::vector<Placement> placements{{0, -1, {0, 1}}};
  const std::vector<float> activations(static_cast<std::size_t>(h_.dim), 0.5f);
  const std::uint64_t before = unit_.progress();
  run(middle, {{}, activations, placements, {}});
  EXPECT_EQ(unit_.progress() - before, 3 * kOperationsPerLayer);
}

TEST_F(TransformerStageTest, features_of_a_layer_are_what_the_stage_before_it_gives) {
  TransformerStage whole = stage({0, 8});
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < kTokens.size(); ++i) placements.push_back({static_cast<std::int32_t>(i), -1, {0, 1}});
  const std::vector<std::int32_t> rows{0, 3, 9}, layers{2, 5, kOutputFeatures};
  run(whole,
      {.tokens = kTokens, .activations = {}, .placements = placements, .logit_rows = {}, .feature_rows = rows, .feature_layers = layers});
  const auto dim = static_cast<std::size_t>(h_.dim);
  ASSERT_EQ(whole.features().size(), rows.size() * layers.size() * dim);
  for (std::size_t l = 0; l < 2; ++l) {
    TransformerStage before = stage({0, layers[l]});
    run(before, {kTokens, {}, placements, {}});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(whole.features().subspan((l * rows.size() + i) * dim, dim),
                                     before.activations().subspan(static_cast<std::size_t>(rows[i]) * dim, dim)))
          << "layer " << layers[l] << ", row " << rows[i];
    }
  }
}

TEST_F(TransformerStageTest, packed_weights_give_the_bits_of_the_file_and_replace_it) {
  const auto logits = [&](TransformerStage& model) {
    std::vector<Placement> placements;
    for (std::size_t i = 0; i < kTokens.size(); ++i) placements.push_back({static_cast<std::int32_t>(i), -1, {0, 1}});
    const std::vector<std::int32_t> logit_rows{static_cast<std::int32_t>(kTokens.size()) - 1};
    run(model, {kTokens, {}, placements, logit_rows});
    return std::vector<float>(model.logits().begin(), model.logits().end());
  };
  TransformerStage plain = stage({0, 8}), packed = stage({0, 8});
  const std::vector<float> expected = logits(plain);
  packed.load(nullptr);
  finish(unit_);
  EXPECT_EQ(logits(packed), expected);
  if (unit_.isa() == "scalar") GTEST_SKIP() << "the scalar kernels read the file";
  EXPECT_LT(file_.resident_bytes(), stage_bytes(file_, h_, {0, 8}) / 2);
}

TEST_F(TransformerStageTest, a_cache_of_8_bits_gives_nearly_the_same_and_keeps_the_contract) {
  const std::vector<float> exact = last_logits(kTokens.size(), {{0, 8}}, CacheType::kF32);
  for (const CacheTypes types : {CacheTypes{CacheType::kQ8_0}, {CacheType::kQ8_0, CacheType::kF16}, {CacheType::kF16, CacheType::kQ8_0}}) {
    const std::vector<float> whole = last_logits(kTokens.size(), {{0, 8}}, types);
    EXPECT_NE(whole, exact);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) difference += std::pow(whole[i] - exact[i], 2), size += std::pow(exact[i], 2);
    EXPECT_LT(difference, 1e-3 * size);
    EXPECT_EQ(last_logits(1, {{0, 8}}, types), whole);
    EXPECT_EQ(last_logits(7, {{0, 3}, {3, 8}}, types), whole);
  }
}

TEST_F(TransformerStageTest, branches_of_a_tree_see_their_own_ancestors_only) {
  // Token 403 at position 1 after BOS, with two children at position 2: each child alone must give the same bits as in the tree.
  const auto alone = [&](std::int32_t child) {
    TransformerStage model = stage({0, 8});
    const std::vector<std::int32_t> tokens{1, 403, child}, logit_rows{2};
    const std::vector<Placement> placements{{0, -1, {0, 1}}, {1, -1, {0, 1}}, {2, -1, {0, 1}}};
    run(model, {tokens, {}, placements, logit_rows});
    return std::vector<float>(model.logits().begin(), model.logits().end());
  };
  TransformerStage model = stage({0, 8});
  const std::vector<std::int32_t> tokens{1, 403, 17, 2500}, logit_rows{2, 3};
  const std::vector<Placement> placements{{0, -1, {0, 3}}, {1, 0, {0, 3}}, {2, 1, {1, 2}}, {2, 1, {2, 3}}};
  run(model, {tokens, {}, placements, logit_rows});
  const auto logits = model.logits();
  EXPECT_EQ(std::vector<float>(logits.begin(), logits.begin() + 4096), alone(17));
  EXPECT_EQ(std::vector<float>(logits.begin() + 4096, logits.end()), alone(2500));
}

TEST_F(TransformerStageTest, a_raised_stop_ends_at_the_first_operation) {
  TransformerStage model = stage({0, 8});
  const std::atomic<bool> stop{true};
  const std::vector<std::int32_t> tokens{1}, logit_rows{0};
  const std::vector<Placement> placements{{0, -1, {0, 1}}};
  const std::uint64_t before = unit_.progress();
  model.start({tokens, {}, placements, logit_rows}, &stop);
  finish(unit_);
  EXPECT_EQ(unit_.progress(), before + 1);
}

TEST_F(TransformerStageTest, destruction_waits_for_the_run_under_way) {
  const std::vector<std::int32_t> logit_rows{static_cast<std::int32_t>(kTokens.size()) - 1};
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < kTokens.size(); ++i) placements.push_back({static_cast<std::int32_t>(i), -1, {0, 1}});
  {
    TransformerStage model = stage({0, 8});
    model.start({kTokens, {}, placements, logit_rows}, nullptr);
  }
  EXPECT_TRUE(unit_.finished());
}

}  // namespace
}  // namespace yamata
