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

}  // namespace
}  // namespace yamata
