// The division of layers among ranks, by speed and memory.
#include "mpi/planning/layer_split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "mpi/planning/memory_plan.hpp"
#include "node/error.hpp"
#include "src/model/weights.hpp"
#include "tests/paths.hpp"

namespace yamata {
namespace {

class LayerSplitTest : public testing::Test {
 protected:
  LayerSplitTest() : model_(ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"))) {}
  std::vector<std::int64_t> counts(const std::vector<double>& weights, int ranks) {
    std::vector<std::int64_t> result;
    for (const LayerRange range : split_layers(file_, h_, weights, ranks)) result.push_back(range.count());
    return result;
  }
  wire::Start plan(int ranks, std::int32_t cells) {
    wire::Start start;
    start.batch = 1;
    start.pipelines = {{0, std::vector<std::int32_t>(static_cast<std::size_t>(ranks)), split_layers(file_, h_, {}, ranks), cells, 1}};
    std::iota(start.pipelines[0].ranks.begin(), start.pipelines[0].ranks.end(), 0);
    return start;
  }
  std::vector<std::string> check(const wire::Start& start, const std::vector<wire::Hello>& hellos) {
    const ModelFile* const models[] = {&model_};
    return plan_memory(models, start, hellos);
  }

  ModelFile model_;
  const gguf::File& file_ = model_.file;
  const Hyperparameters& h_ = model_.h;  // 8 layers
};

TEST_F(LayerSplitTest, Weights_giveTheNearestLayersAndEachRankOne) {
  EXPECT_EQ(counts({0.5, 0.3, 0.2}, 3), (std::vector<std::int64_t>{4, 2, 2}));
  EXPECT_EQ(counts({1, 1}, 2), (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(counts({1, 1, 1}, 3), (std::vector<std::int64_t>{3, 2, 3})) << "the last one has no rest";
  EXPECT_EQ(counts({0.99, 0.005, 0.005}, 3), (std::vector<std::int64_t>{6, 1, 1}));
}

TEST_F(LayerSplitTest, Auto_coversAllLayersOnceAtEveryNumberOfRanks) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const auto ranges = split_layers(file_, h_, {}, ranks);
    ASSERT_EQ(ranges.size(), static_cast<std::size_t>(ranks));
    std::int64_t next = 0;
    for (const LayerRange range : ranges) {
      EXPECT_EQ(range.begin, next);
      EXPECT_GT(range.count(), 0);
      next = range.end;
    }
    EXPECT_EQ(next, h_.layers);
  }
}

TEST_F(LayerSplitTest, Auto_lightensTheRankThatHoldsTheOutput) {
  const auto ranges = split_layers(file_, h_, {}, 2);
  EXPECT_GT(ranges[0].count(), ranges[1].count());
}

TEST_F(LayerSplitTest, SlowRank_getsFewerLayers) {
  const auto split = [&](const std::vector<RankStrength>& ranks) {
    std::vector<std::int64_t> counts;
    for (const LayerRange range : split_layers(file_, h_, ranks, 0)) counts.push_back(range.count());
    return counts;
  };
  EXPECT_EQ(split({{1}, {5}, {1}}), (std::vector<std::int64_t>{4, 1, 3}));  // the last rank also has the output
  EXPECT_EQ(split({{5}, {1}, {1}}), (std::vector<std::int64_t>{1, 4, 3}));
  EXPECT_EQ(split({{2}, {1}}), (std::vector<std::int64_t>{3, 5}));
  for (int ranks = 2; ranks <= 8; ++ranks)
    EXPECT_EQ(split(std::vector<RankStrength>(static_cast<std::size_t>(ranks))), counts({}, ranks)) << ranks;
}

TEST_F(LayerSplitTest, Prompt_needsNoOutputAndLongTextsAreMostlyAttention) {
  const auto split = [&](const Workload& work, std::size_t ranks) {
    std::vector<std::int64_t> counts;
    for (const LayerRange range : split_layers(file_, h_, std::vector<RankStrength>(ranks), 0, work)) counts.push_back(range.count());
    return counts;
  };
  constexpr double kCacheBytes = 512;
  EXPECT_EQ(split({}, 2), (std::vector<std::int64_t>{5, 3}));
  EXPECT_EQ(split({8, 128, kCacheBytes}, 2), (std::vector<std::int64_t>{5, 3}));
  EXPECT_EQ(split({3400, 32, 0}, 2), (std::vector<std::int64_t>{4, 4})) << "the output is one row of the prompt's";
  EXPECT_EQ(split({8, 4000, kCacheBytes}, 2), (std::vector<std::int64_t>{4, 4})) << "attention is every layer's, the output the last one's";
  EXPECT_EQ(split({3400, 32, kCacheBytes}, 4), (std::vector<std::int64_t>{2, 2, 2, 2}));
}

TEST_F(LayerSplitTest, Costs_areBytesReadInTheCourseOfTheWork) {
  const double weights = static_cast<double>(layer_bytes(file_, h_, 0)),
               output = static_cast<double>(file_.tensor("token_embd.weight").bytes);
  const auto plain = layer_costs(file_, h_), work = layer_costs(file_, h_, {100, 10, 512});
  ASSERT_EQ(work.size(), 8u);
  EXPECT_DOUBLE_EQ(plain[0], weights);
  EXPECT_DOUBLE_EQ(plain[7], weights + output);
  EXPECT_DOUBLE_EQ(work[0], weights * (10 + 0.2 * 100) + 512.0 * 110 * 110 / 2);
  EXPECT_DOUBLE_EQ(work[7] - work[0], 10 * output);
}

TEST_F(LayerSplitTest, LayersWithAWindow_readWhatIsInIt) {
  Hyperparameters h = h_;
  h.layer.window = 10;
  h.window_pattern = 2;  // every second layer has no window
  const auto work = layer_costs(file_, h, {100, 20, 512});
  const auto attention = [&](std::size_t layer) {
    return work[layer] - static_cast<double>(layer_bytes(file_, h, static_cast<std::int64_t>(layer))) * (20 + 0.2 * 100);
  };
  EXPECT_NEAR(attention(0), 512 * (10.0 * 10 / 2 + 10.0 * 110), 1);
  EXPECT_NEAR(attention(1), 512 * 120.0 * 120 / 2, 1);
}

TEST_F(LayerSplitTest, LayersWithSparseAttention_readWhatIsPicked) {
  Hyperparameters h = h_;
  h.layer.picked = 50;
  h.indexed.assign(static_cast<std::size_t>(h.layers), false);
  const auto dense = layer_costs(file_, h_, {100, 20, 512}), sparse = layer_costs(file_, h, {100, 20, 512});
  EXPECT_NEAR(dense[1] - sparse[1], 512.0 * (120 * 60 - 50 * (120 - 25)), 1);
}

TEST_F(LayerSplitTest, Auto_isEvenWithinWhatTheSlowestTakes) {
  // The slowest of five ranks has at least two layers. Early ranks have fewer layers; the last one also has the output.
  EXPECT_EQ(counts({}, 5), (std::vector<std::int64_t>{1, 2, 2, 2, 1}));
  EXPECT_EQ(counts({}, 6), (std::vector<std::int64_t>{1, 1, 1, 2, 2, 1}));
}

TEST_F(LayerSplitTest, Room_boundsWhatAFastRankGets) {
  constexpr std::uint64_t kCache = 1 << 20;
  const std::uint64_t layer = layer_bytes(file_, h_, 1) + kCache, plenty = 1ull << 40;
  const auto ranges = split_layers(file_, h_, std::vector<RankStrength>{{1, plenty}, {0.1, 3 * layer}, {1, plenty}}, kCache);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[1].count(), 3);
  EXPECT_EQ(ranges[2].end, h_.layers);
  EXPECT_TRUE(split_layers(file_, h_, std::vector<RankStrength>{{1, 2 * layer}, {1, 2 * layer}}, kCache).empty());
  EXPECT_TRUE(split_layers(file_, h_, std::vector<RankStrength>{{1, plenty}, {1, layer / 2}}, kCache).empty());
}

TEST_F(LayerSplitTest, MoreRanksThanLayersOrOtherNumberOfShares_isRefused) {
  EXPECT_THROW(split_layers(file_, h_, {}, 9), UsageError);
  EXPECT_THROW(split_layers(file_, h_, {0.5, 0.5}, 3), UsageError);
  Hyperparameters one = h_;
  one.layers = 1;
  const auto complaint = [&](int others) -> std::string {
    try {
      split_layers(file_, one, {}, 2, others);
      return "two ranks hold one layer";
    } catch (const UsageError& e) {
      return e.what();
    }
  };
  EXPECT_EQ(complaint(0), file_.name() + ": 2 ranks for a model of 1 layer; start at most 1 rank");
  EXPECT_EQ(complaint(1), file_.name() + ": 2 of the 3 ranks for a model of 1 layer; start at most 2 ranks");
}

TEST_F(LayerSplitTest, StageTensors_areEachInExactlyOneStage) {
  std::size_t sum = 0;
  for (const LayerRange range : split_layers(file_, h_, {}, 4)) sum += stage_bytes(file_, h_, range);
  std::size_t all = 0;
  for (const gguf::Tensor& t : file_.tensors()) all += t.bytes;
  const std::size_t tied = file_.find("output.weight") ? 0 : file_.tensor("token_embd.weight").bytes;
  EXPECT_EQ(sum, all + tied);
}

TEST_F(LayerSplitTest, MemoryPlan_namesTheHostThatIsTooSmallAndWhatFits) {
  const std::vector<wire::Hello> hellos{{1, "", "big", "", {}, 1ull << 34, 2, 0}, {1, "", "small", "", {}, 4u << 20, 2, 0}};
  EXPECT_NO_THROW(check(plan(2, 512), hellos));
  try {
    check(plan(2, 4096), hellos);
    FAIL() << "4096 tokens fit into 4 MiB";
  } catch (const UsageError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("rank 1 (small)"), std::string::npos) << text;
    const auto at = text.find("-c ");
    ASSERT_NE(at, std::string::npos) << text;
    const int fits = std::stoi(text.substr(at + 3));
    EXPECT_NO_THROW(check(plan(2, fits), hellos));
    EXPECT_THROW(check(plan(2, fits + 1), hellos), UsageError);
  }
}

TEST_F(LayerSplitTest, MemoryPlan_addsUpRanksOfOneHost) {
  const auto hellos = [](std::uint64_t bytes) {
    return std::vector<wire::Hello>{{1, "", "one", "", {}, bytes, 1, 0}, {1, "", "one", "", {}, bytes, 1, 0}};
  };
  const std::size_t cache = KvStore::bytes_for(Shard(h_).cache_shape(h_.layers), 4096, CacheType::kF16);
  EXPECT_THROW(check(plan(2, 4096), hellos(cache)), UsageError);
  EXPECT_NO_THROW(check(plan(2, 4096), hellos(cache + (1u << 20))));
}

TEST_F(LayerSplitTest, MemoryPlan_countsWhatThreadsGiveEachOther) {
  const LayerRange all{0, h_.layers};
  EXPECT_EQ(buffer_bytes(h_, all, 64, 2), buffer_bytes(h_, all, 64, 8));
  EXPECT_GT(buffer_bytes(h_, all, 64, 2), buffer_bytes(h_, all, 64, 1) + (1u << 20));
  Hyperparameters large = h_;
  large.heads = 128;
  EXPECT_EQ(buffer_bytes(large, all, 4096, 2) - buffer_bytes(large, all, 4096, 1), std::uint64_t{16} << 20) << "but no more";
  EXPECT_LT(buffer_bytes(h_, {0, h_.layers - 1}, 64, 1), buffer_bytes(h_, all, 64, 1)) << "logits are the last stage's";
}

TEST_F(LayerSplitTest, MemoryPlan_countsTheCacheAsItIsStored) {
  const std::size_t cache = KvStore::bytes_for(Shard(h_).cache_shape(h_.layers), 4096, CacheType::kF16);
  const std::vector<wire::Hello> hellos{{1, "", "one", "", {}, cache * 5 / 8 + (1u << 20), 1, 0}};
  wire::Start start = plan(1, 4096);
  EXPECT_THROW(check(start, hellos), UsageError);
  start.cache_types = {CacheType::kQ8_0, CacheType::kF16};
  EXPECT_THROW(check(start, hellos), UsageError);
  start.cache_types = CacheType::kQ8_0;
  EXPECT_NO_THROW(check(start, hellos));
}

TEST_F(LayerSplitTest, MemoryPlan_refusesACacheThatCannotHoldTheHeads) {
  const std::vector<wire::Hello> hellos{{1, "", "one", "", {}, 1u << 30, 1, 0}};
  wire::Start start = plan(1, 64);
  start.cache_types = {CacheType::kF16, CacheType::kQ8_0};
  EXPECT_NO_THROW(check(start, hellos));
  model_.h.head_dim = 80;
  EXPECT_THROW(check(start, hellos), UsageError);
}

TEST_F(LayerSplitTest, MemoryPlan_warnsWhereWeightsDoNotFitBesideTheCache) {
  const std::vector<wire::Hello> hellos{{1, "", "lean", "", {}, 6u << 20, 2, 0}};
  const auto warnings = check(plan(1, 64), hellos);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("rank 0 (lean)"), std::string::npos) << warnings[0];
}

TEST_F(LayerSplitTest, MemoryPlan_packsWeightsWhereTheirHostHasTheMemoryForThem) {
  const std::vector<wire::Hello> hellos{{1, "", "big", "", {}, 1ull << 34, 2, 0}, {1, "", "lean", "", {}, 3u << 20, 2, 0}};
  const ModelFile* const models[] = {&model_};
  wire::Start start = plan(2, 64);
  plan_packing(models, start, hellos, true);
  EXPECT_EQ(start.pipelines[0].packed, (std::vector<std::uint8_t>{1, 0}));
  plan_packing(models, start, hellos, false);
  EXPECT_EQ(start.pipelines[0].packed, (std::vector<std::uint8_t>{0, 0}));
}

}  // namespace
}  // namespace yamata
