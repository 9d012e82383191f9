// A whole model on the emulated device gives the bits of the CPU: for any chunks of a prompt, any division of layers, and any visible
// cells.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <optional>

#include "node/cpu/cpu_unit.hpp"
#include "node/cuda/cuda_unit.hpp"
#include "node/cuda/emulation/emulated_device.hpp"
#include "node/error.hpp"
#include "node/units/layered_unit.hpp"
#include "src/model/transformer_stage.hpp"
#include "tests/finish.hpp"
#include "tests/paths.hpp"
#include "tests/thorough.hpp"

namespace yamata {
namespace {

const std::string kModel = test::source_path("/models/tales-target-q8_0.gguf");
const std::vector<std::int32_t> kTokens{1, 403, 17, 2500, 90, 1111, 7, 802, 33, 5, 9, 64, 3000, 71, 8, 650, 404, 12, 13, 14};

std::unique_ptr<ComputeUnit> device_unit(cuda::EmulatedDeviceOptions options = {}) {
  return std::make_unique<cuda::CudaUnit>(std::make_unique<cuda::EmulatedDevice>(options));
}

class DeviceStageTest : public ::testing::Test {
 protected:
  /// Logits of all tokens of a tree: from the sixteenth token on, every other token is a sibling of the one before.
  std::vector<float> logits(std::vector<ComputeUnit*> units, std::vector<LayerRange> ranges, std::size_t chunk, CacheTypes types,
                            bool pack) {
    std::deque<TransformerStage> stages;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      ContextOptions options{.cells = 64, .sequences = 8, .cache_types = types, .pack = pack};
      options.copy_others = staying_.has_value(), options.first_layers = staying_.value_or(0);
      stages.emplace_back(file_, h_, ranges[i], options, *units[i]);
      stages.back().load(nullptr);
      finish(*units[i]);
    }
    std::vector<float> all;
    for (std::size_t at = 0; at < kTokens.size(); at += chunk) {
      const std::size_t n = std::min(chunk, kTokens.size() - at);
      std::vector<Placement> placements;
      std::vector<std::int32_t> rows;
      for (std::size_t i = at; i < at + n; ++i) {
        placements.push_back({static_cast<std::int32_t>(i < 16 ? i : 16 + (i - 16) / 2),
                              -1,
                              {i < 16 ? 0 : static_cast<std::int32_t>(i % 2), i < 16 ? 2 : static_cast<std::int32_t>(i % 2 + 1)}});
        rows.push_back(static_cast<std::int32_t>(i - at));
      }
      std::vector<float> activations;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        stages[s].start({std::span(kTokens).subspan(at, n), activations, placements, rows}, nullptr);
        finish(*units[s]);
        activations.assign(stages[s].activations().begin(), stages[s].activations().end());
      }
      all.insert(all.end(), stages.back().logits().begin(), stages.back().logits().end());
    }
    if (seen_) used_bytes_ = seen_->used_bytes();
    return all;
  }

  gguf::File file_ = gguf::File::open(kModel);
  Hyperparameters h_ = Hyperparameters::read(file_);
  CpuUnit cpu_{{-1, -1}, cpu::choose_isa()};
  const cuda::EmulatedDevice* seen_ = nullptr;
  std::uint64_t used_bytes_ = 0;         // of the seen device, at the end of logits()
  std::optional<std::int64_t> staying_;  // layers that stay on a device to which the others are copied
};

TEST_F(DeviceStageTest, aWholeModelAndPartsOfIt_haveTheBitsOfTheCpu) {
  const std::vector<float> expected = logits({&cpu_}, {{0, 8}}, kTokens.size(), CacheType::kF16, true);
  ASSERT_EQ(expected.size(), kTokens.size() * 4096);
  const auto unified = device_unit(), discrete = device_unit({.unified = false});
  EXPECT_EQ(logits({unified.get()}, {{0, 8}}, kTokens.size(), CacheType::kF16, true), expected);
  EXPECT_EQ(logits({discrete.get()}, {{0, 8}}, 7, CacheType::kF16, true), expected);
  EXPECT_EQ(logits({discrete.get()}, {{0, 8}}, 20, CacheType::kF16, false), expected) << "weights that are not packed";
  EXPECT_EQ(logits({unified.get(), &cpu_, discrete.get()}, {{0, 3}, {3, 5}, {5, 8}}, 10, CacheType::kF16, true), expected);
}

TEST_F(DeviceStageTest, caches_ofEveryType_haveTheBitsOfTheCpu) {
  const auto unit = device_unit();
  for (const CacheTypes types : {CacheTypes(CacheType::kF32), CacheTypes(CacheType::kQ8_0, CacheType::kF16)})
    EXPECT_EQ(logits({unit.get()}, {{0, 8}}, 20, types, true), logits({&cpu_}, {{0, 8}}, 20, types, true));
}

/// Memory that is not the device's own must be made accessible to it page by page, for every run.
TEST_F(DeviceStageTest, weightsAndCache_areInItsOwnMemory_thoseOfItsLayersAlone) {
  auto device = std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{.unified = false});
  const cuda::EmulatedDevice& seen = *device;
  const auto cores = [] { return std::make_unique<CpuUnit>(std::vector<int>{-1}, cpu::choose_isa()); };
  LayeredUnit unit(std::make_unique<cuda::CudaUnit>(std::move(device)), cores());
  std::vector<std::uint64_t> used;
  for (const std::int64_t layers : {8, 0, 2, 4, 8}) {  // the first one allocates scratch memory
    TransformerStage stage(file_, h_, {0, 8},
                           ContextOptions{.cells = 512, .sequences = 1, .cache_types = CacheType::kF16, .first_layers = layers}, unit);
    stage.load(nullptr);
    finish(unit);
    used.push_back(seen.used_bytes());
    stage.start(
        {.tokens = std::span(kTokens).first(1), .activations = {}, .placements = std::vector<Placement>{{0, -1, {0, 1}}}, .logit_rows = {}},
        nullptr);
    finish(unit);
  }
  EXPECT_EQ(seen.reached_bytes(), 0u);
  const std::size_t layer = layer_bytes(file_, h_, 1) + KvStore::bytes_for(Shard(h_).cache_shape(1), 512, CacheType::kF16);
  EXPECT_NEAR(static_cast<double>(used[2] - used[1]), static_cast<double>(2 * layer), 0.02 * static_cast<double>(layer));
  EXPECT_NEAR(static_cast<double>(used[3] - used[2]), static_cast<double>(2 * layer), 0.02 * static_cast<double>(layer));
  EXPECT_GT(used[4], used[3] + 4 * layer) << "and the output";
}

/// Whenever a card makes the copies, each layer is computed with its own weights.
TEST_F(DeviceStageTest, copiedLayers_haveTheBitsOfTheCpu_andMemoryForTwo) {
  const std::vector<float> expected = logits({&cpu_}, {{0, 8}}, kTokens.size(), CacheType::kF16, true);
  using enum cuda::CopyTime;
  std::vector<std::pair<cuda::CopyTime, std::int64_t>> cases{{kEarly, 0}, {kLate, 0}, {kAny, 3}, {kLate, 7}};
  if (test::thorough()) {
    for (const auto copies : {kAny, kEarly, kLate})
      for (std::int64_t staying = 0; staying <= 8; ++staying) cases.emplace_back(copies, staying);
  }
  std::map<std::int64_t, std::uint64_t> bytes, used;
  for (const auto& [copies, staying] : cases) {
    auto device = std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{.unified = false, .copies = copies});
    seen_ = device.get();
    cuda::CudaUnit unit(std::move(device));
    staying_ = staying;
    EXPECT_EQ(logits({&unit}, {{0, 8}}, 7, CacheType::kF16, true), expected) << static_cast<int>(copies) << ", " << staying;
    bytes[staying] = unit.copied_weights().bytes;
    used[staying] = used_bytes_;
  }
  const std::uint64_t layer = bytes[7] / 3;  // in three runs
  EXPECT_GT(layer, layer_bytes(file_, h_, 1) * 9 / 10);
  EXPECT_EQ(bytes[3], 3 * 5 * layer);
  EXPECT_EQ(bytes[0], 3 * 8 * layer);
  EXPECT_NEAR(static_cast<double>(used[3] - used[0]), static_cast<double>(3 * layer), 0.02 * static_cast<double>(layer));
  EXPECT_NEAR(static_cast<double>(used[7] - used[0]), static_cast<double>(6 * layer), 0.02 * static_cast<double>(layer));
}

std::unique_ptr<cuda::CudaUnit> unit_with(cuda::InjectedFault fault, bool graphs) {
  return std::make_unique<cuda::CudaUnit>(std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{.fault = fault}), nullptr,
                                          cuda::LaunchOptions{.graphs = graphs});
}

class DeviceGraphTest : public DeviceStageTest {
 protected:
  DeviceGraphTest() { h_.layers = 2; }
  std::vector<float> on(ComputeUnit& unit, std::size_t chunk) { return logits({&unit}, {{0, 2}}, chunk, CacheType::kF16, true); }
};

/// Single tokens and pairs alternate: each width has its own graphs, and each token a different place in the cache.
TEST_F(DeviceGraphTest, graphsThatComeAgain_haveTheBitsOfTheCpu) {
  const std::vector<float> expected = on(cpu_, 5);
  const auto with = unit_with(cuda::InjectedFault::kNone, true), without = unit_with(cuda::InjectedFault::kNone, false);
  for (const std::size_t chunk : {1u, 2u}) {
    EXPECT_EQ(on(*with, chunk), expected);
    EXPECT_EQ(on(*without, chunk), expected);
  }
  EXPECT_GT(with->graph_counts().launched, 3 * with->graph_counts().built) << "most parts of a pass are what they were";
  EXPECT_GT(with->graph_counts().updated, 0u);
  EXPECT_EQ(without->graph_counts().launched, 0u);
}

/// Each in a new process, since a fault may end it: not in a fork of this one, which has had threads.
TEST_F(DeviceGraphTest, faultsInGraphs_areFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto compare = [this](cuda::InjectedFault fault) { std::exit(on(*unit_with(fault, true), 1) == on(cpu_, 5) ? 0 : 1); };
  const auto is_wrong = [](int status) { return status != 0; };
  EXPECT_EXIT(compare(cuda::InjectedFault::kNone), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(compare(cuda::InjectedFault::kStaleGraph), is_wrong, "");
  EXPECT_EXIT(compare(cuda::InjectedFault::kOtherGraph), is_wrong, "");
}

TEST_F(DeviceStageTest, aCallThatFailsInTheMiddle_isOneLine) {
  const auto unit = device_unit({.fails_at = 120});
  try {
    logits({unit.get()}, {{0, 8}}, 20, CacheType::kF16, true);
    FAIL() << "nothing failed";
  } catch (const ClusterError& error) {
    EXPECT_NE(std::string(error.what()).find("device emulated:0: "), std::string::npos) << error.what();
  }
}

TEST_F(DeviceStageTest, tooLittleMemory_isFoundBeforeItRuns) {
  const auto none = device_unit({.memory_bytes = 100});
  EXPECT_THROW(logits({none.get()}, {{0, 8}}, 20, CacheType::kF16, true), ModelError);
}

}  // namespace
}  // namespace yamata
