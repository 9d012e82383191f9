// Measurements of one layer.
#include "src/model/layer_probe.hpp"

#include <gtest/gtest.h>

#include <array>

#include "node/cpu/cpu_unit.hpp"
#include "tests/paths.hpp"

namespace yamata {
namespace {

TEST(LayerProbe, everyLayer_isComputedAndLeavesNoPagesOfItsFile) {
  const ModelFile model = ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"));
  CpuUnit unit({-1, -1}, cpu::choose_isa());
  for (const std::int64_t layer : {std::int64_t{0}, std::int64_t{3}, model.h.layers - 1}) {
    LayerProbe probe(model, {layer, layer + 1}, unit);
    ASSERT_TRUE(probe.warm_up(std::chrono::minutes(1)));
    EXPECT_GT(probe.quick_check(), 0);
    EXPECT_GT(probe.measure(), 0);
    model.file.release_pages();
    EXPECT_LT(model.file.resident_bytes(), layer_bytes(model.file, model.h, layer));
  }
}

TEST(LayerProbe, Layers_areAsManyAsHaveSoManyBytes) {
  const ModelFile model = ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"));
  const std::size_t one = layer_bytes(model.file, model.h, 0);
  const auto range = [&](std::int64_t middle, std::size_t bytes) {
    const LayerRange layers = layers_of_bytes(model, middle, bytes);
    return std::pair(layers.begin, layers.end);
  };
  const std::int64_t all = model.h.layers;
  EXPECT_EQ(range(2, 0), std::pair(std::int64_t{2}, std::int64_t{3}));
  EXPECT_EQ(range(2, one), std::pair(std::int64_t{2}, std::int64_t{3}));
  EXPECT_EQ(range(2, one + 1), std::pair(std::int64_t{2}, std::int64_t{4}));
  EXPECT_EQ(range(all - 1, 2 * one), std::pair(all - 2, all)) << "there are none after it";
  EXPECT_EQ(range(2, 1000 * one), std::pair(std::int64_t{0}, all));
}

TEST(LayerProbe, MeasurementThatIsStopped_endsSoon) {
  const ModelFile model = ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"));
  CpuUnit unit({-1}, cpu::choose_isa());
  LayerProbe probe(model, {0, 1}, unit);
  ASSERT_TRUE(probe.warm_up(std::chrono::minutes(1)));
  const std::atomic<bool> stop{true};
  probe.stop_on(stop);
  const auto operations = [&](auto measure) {
    const std::uint64_t before = unit.progress();
    measure();
    return unit.progress() - before;
  };
  const std::uint64_t run = operations([&] { probe.quick_check(); });
  EXPECT_GT(run, 0u);
  EXPECT_EQ(operations([&] { probe.measure(); }), 5 * run) << "one run a window";
}

TEST(LayerProbe, WiderRun_takesLongerThanOneTokenAndLessThanEachAlone) {
  const ModelFile model = ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"));
  CpuUnit unit({-1}, cpu::choose_isa());
  LayerProbe probe(model, {0, 2}, unit, 64);
  ASSERT_TRUE(probe.warm_up(std::chrono::minutes(1)));
  const double multiple = probe.width_multiples(std::array{64}).front();
  EXPECT_GT(multiple, 1);
  EXPECT_LT(multiple, 128);
}

TEST(LayerProbe, StoppedWhileItReads_measuresNothing) {
  const ModelFile model = ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"));
  CpuUnit unit({-1}, cpu::choose_isa());
  LayerProbe probe(model, {0, 2}, unit);
  const std::atomic<bool> stop{true};
  probe.stop_on(stop);
  EXPECT_FALSE(probe.warm_up(std::chrono::minutes(1)));
}

}  // namespace
}  // namespace yamata
