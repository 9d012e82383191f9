// What layers with a window take of a cache.
#include "mpi/planning/memory_plan.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"

namespace yamata {
namespace {

class WindowPlan : public testing::Test {
 protected:
  WindowPlan() : model_(ModelFile::open(YAMATA_SOURCE_DIR "/models/tales-target-q8_0.gguf")) {
    model_.h.layer.window = 64, model_.h.window_pattern = 2;  // in every second of 8 layers
  }
  RankBytes bytes(LayerRange layers, std::int32_t window_cells) const {
    return rank_bytes(model_, layers, Shard(model_.h), CacheType::kF16, 64, 1, window_cells);
  }

  ModelFile model_;
};

TEST_F(WindowPlan, Cells_areTheWindowARunAndItsGuesses) {
  EXPECT_EQ(window_cells(model_.h, 4096, 0, 64), 63 + 64);
  EXPECT_EQ(window_cells(model_.h, 4096, 128, 64), 63 + 64 + 256);
  EXPECT_EQ(window_cells(model_.h, 4096, 0, 1), 63 + 16) << "what a draft has missed it reads at once";
  EXPECT_EQ(window_cells(model_.h, 127, 0, 64), 0) << "no fewer than all";
  EXPECT_EQ(window_cells(model_.h, 128, 0, 64), 127);
  model_.h.layer.window = 0;
  EXPECT_EQ(window_cells(model_.h, 4096, 0, 64), 0);
}

TEST_F(WindowPlan, RankBytes_countOnlyOtherLayersPerCell) {
  const std::uint64_t cell = KvStore::bytes_for(Shard(model_.h).cache_shape(1), 1, CacheType::kF16);
  EXPECT_EQ(bytes({0, 8}, 127).cache(4096), 4 * cell * 4096 + 4 * cell * 127);
  EXPECT_EQ(bytes({0, 3}, 127).cache(4096), 1 * cell * 4096 + 2 * cell * 127);
  EXPECT_EQ(bytes({0, 8}, 0).cache(4096), 8 * cell * 4096);
}

TEST_F(WindowPlan, AHostThatIsTooSmall_isToldWhatFitsBesideWindows) {
  const ModelFile* const models[] = {&model_};
  wire::Start start;
  start.batch = 1;
  start.pipelines = {{.ranks = {0}, .layers = {{0, 8}}, .cells = 1 << 16, .window_cells = 127}};
  const std::vector<wire::Hello> hellos{{1, "", "small", "", {}, 8u << 20, 1, 0}};
  try {
    plan_memory(models, start, hellos);
    FAIL() << "it fits";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    ASSERT_NE(text.find("-c "), std::string::npos) << text;
    start.pipelines[0].cells = std::stoi(text.substr(text.find("-c ") + 3));
    EXPECT_NO_THROW(plan_memory(models, start, hellos));
    ++start.pipelines[0].cells;
    EXPECT_THROW(plan_memory(models, start, hellos), UsageError);
  }
}

/// A rank whose device has its first layers whole.
class DevicePlan : public testing::Test {
 protected:
  DevicePlan() : model_(ModelFile::open(YAMATA_SOURCE_DIR "/models/tales-target-q8_0.gguf")) {
    start_.batch = 8;
    start_.pipelines = {{.ranks = {0}, .layers = {{0, 8}}, .cells = 256}};
    hello_.host = "pc", hello_.device = "cpu+cuda:0", hello_.available_bytes = 1u << 30, hello_.threads = 1;
  }
  std::string fault_with(std::int32_t layers, std::uint64_t device_bytes) {
    hello_.device_layers = layers, hello_.device_bytes = device_bytes;
    try {
      plan_memory(models_, start_, {hello_});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  /// Of layers alone, without the output.
  std::uint64_t device_needs(std::int64_t layers) const {
    const RankBytes bytes = rank_bytes(model_, {1, 1 + layers}, Shard(model_.h), CacheType::kF16, 8, 1);
    return bytes.weights + bytes.cache(256) + bytes.buffers;
  }

  ModelFile model_;
  const ModelFile* const models_[1] = {&model_};
  wire::Start start_;
  wire::Hello hello_;
};

TEST_F(DevicePlan, wholeLayersThatDoNotFit_areRefusedWithHowManyWould) {
  for (std::int64_t layers = 1; layers < 7; ++layers)
    EXPECT_EQ(fault_with(static_cast<std::int32_t>(layers), device_needs(layers)), "") << layers;
  const std::string fault = fault_with(6, device_needs(3));
  EXPECT_NE(fault.find("6 whole layers take "), std::string::npos) << fault;
  EXPECT_NE(fault.find("at most -ngl 3 fits"), std::string::npos) << fault;
  EXPECT_NE(fault_with(99, device_needs(5)).find("8 whole layers take "), std::string::npos) << "no more than there are";
  EXPECT_NE(fault_with(1, 1).find("at most -ngl 0 fits"), std::string::npos);
  EXPECT_EQ(fault_with(99, 1u << 30), "");
}

TEST_F(DevicePlan, aHost_holdsOnlyTheOtherLayersBesideADeviceWithMemoryOfItsOwn) {
  const RankBytes all = rank_bytes(model_, {0, 8}, Shard(model_.h), CacheType::kF16, 8, 1);
  const auto packs = [&](std::int32_t layers, std::int32_t unified, std::uint64_t bytes) {
    hello_.device_layers = layers, hello_.device_is_unified = unified, hello_.device_bytes = 1u << 30, hello_.available_bytes = bytes;
    plan_packing(models_, start_, {hello_}, true);
    return start_.pipelines.front().packed.front() != 0;
  };
  const std::uint64_t needed = all.weights + all.cache(256) + all.buffers,
                      layer = rank_bytes(model_, {1, 2}, Shard(model_.h), CacheType::kF16, 8, 1).weights;
  EXPECT_TRUE(packs(0, 0, needed));
  EXPECT_FALSE(packs(3, 1, needed - 1)) << "one memory";
  EXPECT_TRUE(packs(3, 0, needed - 3 * layer));
  EXPECT_FALSE(packs(2, 0, needed - 3 * layer));
}

}  // namespace
}  // namespace yamata
